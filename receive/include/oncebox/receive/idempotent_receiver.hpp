#pragma once

#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "oncebox/clock.hpp"
#include "oncebox/envelope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/receive/detail/key_gate.hpp"
#include "oncebox/receive/detail/receiver_calls.hpp"
#include "oncebox/receive/receive_context.hpp"
#include "oncebox/receive/received.hpp"
#include "oncebox/receive/receiver_options.hpp"
#include "oncebox/receive/result_codec.hpp"

namespace oncebox {

/// What to do about a success of the handler that the store does not take.
enum class UnrecordedPolicy {
  raise,   ///< throw it: `UnrecordedSuccess`
  answer,  ///< put it into the answer, so that it is not taken for one that the handler threw
};

/// What one call of a receiver can be told.
struct ReceiveOptions {
  std::stop_token stop = {};           ///< ends waiting, and is handed on to the handler
  std::string_view fallback_key = {};  ///< for a message in which no key is found
  /// Who has set the headers. Stands in the store before a key that was found in one, behind the
  /// receiver's prefix, so that no sender meets the keys of another one. "/", then anything but a
  /// slash, then what ends the scope; a key without scope never begins so.
  std::string_view header_scope = {};
  UnrecordedPolicy on_unrecorded = UnrecordedPolicy::raise;
  /// A retryable error of the store before the handler was called is thrown as a `NotNow` with this
  /// delay, so that it is told apart from one that the handler throws.
  std::optional<Duration> away_delay = {};
};

/// Calls a handler for messages whose key was not seen before, and recognises the others.
///
///     auto receiver = IdempotentReceiver<AcceptOrder, std::string>::over(store.keys(), accept)
///                         .on_duplicate(DuplicatePolicy::replay_completed)
///                         .build();
///     const Received<std::string> answer = receiver.receive({headers, order});
///
/// **What is promised.** Handlers of one key do not run at the same time, unless one outlives its
/// lease; leases are extended while handlers run. A handler that returned is not called again for
/// its key until the retention ends; one that threw is, unless the policy says no. When a process
/// dies in a handler, its key is free again once the lease has ended, and the handler is called
/// anew: it must bear that, as with any delivery that is at least once. How durable all this is
/// depends on the store alone.
///
/// **The key** is the header `idempotencyKey`, unless `key_by` says otherwise. It is compared byte
/// by byte; one that is empty or blank is missing, one that is no `IdempotencyKey` throws
/// `invalid_argument`. In the store `ReceiverOptions::key_prefix` stands before it, and a slash at
/// its beginning is doubled. What would be too long there is stored as its SHA-256.
///
/// **Failures.** What a handler throws is stored as the reason, cut to 2,048 bytes, and thrown on;
/// its text must not contain the payload. An error of the store before the handler was called is
/// thrown as it is, unless `ReceiveOptions::away_delay` says otherwise; one after it has succeeded
/// is an `UnrecordedSuccess` and never counts as a failure of the handler. A result that is too
/// large, or cannot be encoded, is not stored: the key is completed without it, and its duplicates
/// are suppressed; so are those whose stored result cannot be decoded. Both are logged.
///
/// **Stopping.** The caller's stop token never undoes what has been done: once the handler has
/// returned, its success is recorded.
///
/// **Threads.** `receive` is called from any thread; the handler runs on the same one, so on
/// several at once for different keys. A duplicate of what is completed costs the memory store one
/// lookup and no allocation.
template <class Payload, StorableResult Result>
class IdempotentReceiver {
 public:
  class Builder;

  /// A receiver in the making. The handler is any callable that `detail::ReceiverHandler` lists;
  /// the store is borrowed and must outlive the receiver.
  template <detail::ReceiverHandler<Payload, Result> Callable>
  [[nodiscard]] static Builder over(IdempotencyStore& keys, Callable handler) {
    return Builder(keys, detail::handler_call<Payload, Result>(std::move(handler)));
  }

  /// What became of the message. Its key points into the message where it was found there.
  Received<Result> receive(const Envelope<Payload>& message, const ReceiveOptions& options = {}) {
    SelectedKey key = select_key_(message);
    if (key.blank()) return receive_by_fallback(message, options);
    const std::string_view scope = keyed_by_header_ ? options.header_scope : std::string_view();
    if (options_.key_prefix.empty() && scope.empty() && key.text().front() != '/') {
      return receive_as(key.text(), key, message, options);
    }
    return receive_as(detail::stored_key(options_.key_prefix, scope, key.text()), key, message,
                      options);
  }

  /// Looks at the clock now, without waiting for the next round of lease extensions; for tests that
  /// have moved a clock.
  void wake() { gate_->wake(); }

  [[nodiscard]] const ReceiverOptions& options() const noexcept { return options_; }

 private:
  IdempotentReceiver(const Builder& parts)
      : keys_(parts.keys_),
        options_(parts.options_),
        handle_(parts.handle_),
        select_key_(parts.select_key_),
        keyed_by_header_(parts.keyed_by_header_),
        gate_(std::make_unique<detail::KeyGate>(parts.keys_, parts.options_, parts.logger_,
                                                parts.clock_)) {}

  Received<Result> receive_by_fallback(const Envelope<Payload>& message,
                                       const ReceiveOptions& options) {
    SelectedKey key = options.fallback_key;
    if (key.blank()) return without_key(message, options.stop);
    return receive_as(detail::stored_key(options_.key_prefix, key.text()), key, message, options);
  }

  Received<Result> without_key(const Envelope<Payload>& message, const std::stop_token& stop) {
    if (options_.on_missing_key == MissingKeyPolicy::reject) return {};
    ReceiveContext context({}, 1, stop);
    return {.status = ReceiveStatus::processed, .result = handle_(message, context)};
  }

  Received<Result> receive_as(std::string_view stored_key, SelectedKey& key,
                              const Envelope<Payload>& message, const ReceiveOptions& options) {
    const std::optional<BeginStatus> known =
        of_store(options, [&] { return keys_.recognise(stored_key, options_.on_failed); });
    if (known && is_answer(*known)) return not_handled(*known, key);
    const IdempotencyKey name(stored_key);
    BeginOutcome begun =
        of_store(options, [&] { return gate_->enter(name, options_.owner, options.stop); });
    if (begun.status == BeginStatus::acquired) return handled(name, begun, key, message, options);
    if (begun.status == BeginStatus::processed) {
      if (std::optional<Result> result = replay(name, begun.result)) {
        return {.status = ReceiveStatus::replayed,
                .key = std::move(key),
                .result = std::move(result),
                .original = OriginalState::completed};
      }
    }
    Received<Result> answer = not_handled(begun.status, key);
    answer.error = std::move(begun.error);
    return answer;
  }

  template <class Call>
  static auto of_store(const ReceiveOptions& options, Call call) {
    try {
      return call();
    } catch (const Error& error) {
      if (!options.away_delay || !error.retryable()) throw;
      throw NotNow(*options.away_delay, detail::keys_away_text(error));
    }
  }

  /// Whether a look at the key is all it takes.
  [[nodiscard]] bool is_answer(BeginStatus known) const noexcept {
    switch (known) {
      case BeginStatus::processed:
        return options_.on_duplicate == DuplicatePolicy::suppress;
      case BeginStatus::busy:
        return options_.on_running != RunningPolicy::wait;
      case BeginStatus::failed:  // the reason is wanted
      case BeginStatus::acquired:
        return false;
    }
    return false;
  }

  [[nodiscard]] Received<Result> not_handled(BeginStatus found, SelectedKey& key) const noexcept {
    if (found == BeginStatus::busy) {
      const bool suppressed = options_.on_running == RunningPolicy::suppress;
      return {.status = suppressed ? ReceiveStatus::duplicate : ReceiveStatus::busy,
              .key = std::move(key),
              .original = OriginalState::running};
    }
    const bool failed = found == BeginStatus::failed;
    return {.status = ReceiveStatus::duplicate,
            .key = std::move(key),
            .original = failed ? OriginalState::failed : OriginalState::completed};
  }

  Received<Result> handled(const IdempotencyKey& name, const BeginOutcome& begun, SelectedKey& key,
                           const Envelope<Payload>& message, const ReceiveOptions& options) {
    detail::HeldKey held(*gate_, name, begun, options.stop);
    Received<Result> answer{.status = ReceiveStatus::processed, .key = std::move(key)};
    try {
      answer.result.emplace(handle_(message, held.context()));
    } catch (...) {
      held.fail_with_current_exception();
      throw;
    }
    try {
      answer.lease_lost = !held.complete(encoded(*answer.result, held));
    } catch (const UnrecordedSuccess& unrecorded) {
      if (options.on_unrecorded == UnrecordedPolicy::raise) throw;
      answer.unrecorded = std::make_shared<const UnrecordedSuccess>(unrecorded);
    }
    return answer;
  }

  static std::optional<std::string> encoded(const Result& result, detail::HeldKey& held) {
    try {
      return ResultCodec<Result>::encode(result);
    } catch (...) {
      held.warn_of_result();
      return std::nullopt;
    }
  }

  std::optional<Result> replay(const IdempotencyKey& name,
                               const std::optional<std::string>& stored) const {
    if (options_.on_duplicate != DuplicatePolicy::replay_completed || !stored) return std::nullopt;
    std::optional<Result> result = decoded(*stored);
    if (!result) gate_->warn_of_stored_result(name);
    return result;
  }

  static std::optional<Result> decoded(const std::string& stored) {
    try {
      return ResultCodec<Result>::decode(stored);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      return std::nullopt;
    }
  }

  IdempotencyStore& keys_;
  ReceiverOptions options_;
  detail::HandlerCall<Payload, Result> handle_;
  detail::SelectorCall<Payload> select_key_;
  bool keyed_by_header_;
  std::unique_ptr<detail::KeyGate> gate_;
};

/// Sets what a receiver does differently from `ReceiverOptions`, one call each.
template <class Payload, StorableResult Result>
class IdempotentReceiver<Payload, Result>::Builder {
 public:
  /// Where the key is found: a callable that `detail::KeySelector` lists, such as
  /// `&AcceptOrder::order_id`. What it answers as a view or a reference must live in the message.
  /// The key counts whoever sent the message.
  template <detail::KeySelector<Payload> Selector>
  Builder& key_by(Selector selector) {
    select_key_ = detail::selector_call<Payload>(std::move(selector));
    return set(keyed_by_header_, false);
  }
  /// In another header. As that of the default one, the key belongs to who sent the message, where
  /// that is known: `ReceiveOptions::header_scope`.
  Builder& key_by_header(std::string name) {
    key_by([name = std::move(name)](const Envelope<Payload>& message) {
      return message.headers.get(name);
    });
    return set(keyed_by_header_, true);
  }

  Builder& on_duplicate(DuplicatePolicy policy) { return set(options_.on_duplicate, policy); }
  Builder& on_missing_key(MissingKeyPolicy policy) { return set(options_.on_missing_key, policy); }
  Builder& on_failed(FailedKeyPolicy policy) { return set(options_.on_failed, policy); }
  Builder& on_running(RunningPolicy policy) { return set(options_.on_running, policy); }
  Builder& wait_at_most(Duration time) { return set(options_.wait_at_most, time); }
  Builder& lease(Duration lease) { return set(options_.lease, lease); }
  Builder& retention(Duration retention) {
    return set(options_.retention, std::optional(retention));
  }
  Builder& verdict_tries(VerdictTries tries) { return set(options_.verdict_tries, tries); }
  Builder& name(std::string name) { return set(options_.name, std::move(name)); }
  Builder& key_prefix(std::string prefix) { return set(options_.key_prefix, std::move(prefix)); }
  Builder& owner(std::string label) { return set(options_.owner, std::move(label)); }
  /// All of them at once.
  Builder& options(ReceiverOptions options) { return set(options_, std::move(options)); }

  /// Borrowed. Without them: no log, the machine's clock.
  Builder& log_to(Logger& logger) { return set(logger_, &logger); }
  Builder& clock(const Clock& clock) { return set(clock_, &clock); }

  /// Throws as `ReceiverOptions::validate` does.
  [[nodiscard]] IdempotentReceiver build() const { return IdempotentReceiver(*this); }

 private:
  friend class IdempotentReceiver;
  Builder(IdempotencyStore& keys, detail::HandlerCall<Payload, Result> handle)
      : keys_(keys), handle_(std::move(handle)) {}

  template <class T>
  Builder& set(T& member, T value) {
    member = std::move(value);
    return *this;
  }

  IdempotencyStore& keys_;
  detail::HandlerCall<Payload, Result> handle_;
  detail::SelectorCall<Payload> select_key_ = [](const Envelope<Payload>& message) -> SelectedKey {
    return message.headers.idempotency_key();
  };
  bool keyed_by_header_ = true;
  ReceiverOptions options_;
  Logger* logger_ = nullptr;
  const Clock* clock_ = nullptr;
};

}  // namespace oncebox
