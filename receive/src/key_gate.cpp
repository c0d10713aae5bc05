#include "oncebox/receive/detail/key_gate.hpp"

#include <algorithm>
#include <functional>
#include <list>
#include <string_view>
#include <utility>

#include "key_leases.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/intake.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/engine/exception_text.hpp"
#include "oncebox/engine/stopwatch.hpp"
#include "oncebox/error.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/receive/received.hpp"

namespace oncebox::detail {

namespace {

/// Between looks at a busy key: another process may end it, and does not tell this one.
constexpr detail::Backoff::Bounds kLooks{.first = Duration{10}, .longest = Duration{500}};
constexpr int kPauseGrowth = 4;  // between tries of a verdict
constexpr Duration kLongestPause = std::chrono::minutes{1};

// Every continuation byte of UTF-8 is 10xxxxxx.
std::size_t code_points_in(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

std::string stored_key(std::string_view prefix, std::string_view scope, std::string_view key) {
  require_name(key, IdempotencyKeyTag::kWhat, IdempotencyKeyTag::kMaxCodePoints);
  if (scope.empty() && key.starts_with('/')) scope = "/";
  std::string name(scope);
  name += key;
  return stored_key(prefix, name);
}

std::string stored_key(std::string_view prefix, std::string_view name) {
  std::string stored(prefix);
  if (code_points_in(prefix) + code_points_in(name) <= kMaxIdempotencyKeyCodePoints) {
    stored += name;
  } else {
    stored += "/sha256/";
    stored += to_hex(sha256(name));
  }
  return stored;
}

std::string keys_away_text(const Error& error) {
  return std::string("the store of idempotency keys does not answer: ") + error.what();
}

class KeyGate::Impl {
 public:
  Impl(IdempotencyStore& keys, const ReceiverOptions& options, Logger* logger, const Clock* clock)
      : keys_(keys),
        options_(options),
        logger_(logger != nullptr ? *logger : no_log()),
        clock_(clock != nullptr ? *clock : SystemClock::shared()),
        told_(clock_),
        leases_(keys, options_.lease, options_.name, logger_, clock_) {}

  BeginOutcome begin(const IdempotencyKey& key, const std::string& owner) {
    return keys_.begin({.key = key,
                        .owner = owner,
                        .lease = options_.lease,
                        .retention = options_.retention,
                        .on_failed = options_.on_failed});
  }

  BeginOutcome wait_and_begin(const IdempotencyKey& key, const std::string& owner,
                              const std::stop_token& stop);

  /// The callers that wait for this key may look.
  void tell_ended(const IdempotencyKey& key) {
    tell([&](const Waiter& waiter) { return waiter.key == key; });
  }
  void wake() {
    leases_.wake();
    tell([](const Waiter&) { return true; });
  }

  /// What `call` answers, after as many tries as the options allow. `last_try` runs before the last
  /// one. Throws what the last one threw.
  template <class Call, class LastTry>
  auto tried(Call call, LastTry last_try);

  [[nodiscard]] IdempotencyStore& keys() const noexcept { return keys_; }
  [[nodiscard]] const ReceiverOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
  [[nodiscard]] KeyLeases& leases() noexcept { return leases_; }

  void warn(std::string_view text, const IdempotencyKey& key, std::string_view error) noexcept {
    if (error.empty()) {
      logger_.log(LogLevel::warning, text, {{"receiver", options_.name}, {"key", key}});
    } else {
      logger_.log(LogLevel::warning, text,
                  {{"receiver", options_.name}, {"key", key}, {"error", error}});
    }
  }

 private:
  /// A caller that waits for a key.
  struct Waiter {
    const IdempotencyKey& key;
    bool told = false;  ///< to look at it
  };
  using Waiters = std::list<Waiter>;
  /// Stands in the list of those that wait, as long as it lives.
  class Waiting {
   public:
    Waiting(Impl& gate, const IdempotencyKey& key) : gate_(gate) {
      const Lock lock(gate_.waiters_mutex_);
      self_ = gate_.waiters_.insert(gate_.waiters_.end(), Waiter{key});
    }
    ~Waiting() {
      const Lock lock(gate_.waiters_mutex_);
      gate_.waiters_.erase(self_);
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    /// Until it is told to look, a stop is requested, or the time has come.
    void wait_until(SteadyTime time, const std::stop_token& stop) {
      const Lock lock(gate_.waiters_mutex_);
      while (!self_->told && !stop.stop_requested() &&
             gate_.told_.wait_until(gate_.waiters_mutex_, time)) {
        continue;
      }
      self_->told = false;
    }

   private:
    Impl& gate_;
    Waiters::iterator self_;
  };

  template <class Which>
  void tell(Which which) {
    const Lock lock(waiters_mutex_);
    if (waiters_.empty()) return;
    for (Waiter& waiter : waiters_) waiter.told = waiter.told || which(waiter);
    told_.notify_all();
  }

  [[nodiscard]] bool may_be_free(const IdempotencyKey& key) {
    const std::optional<KeyRecord> record = keys_.find(key);
    return !record || record->status != KeyStatus::in_progress ||
           record->lease_until.value_or(kMaxTime) <= clock_.now();
  }

  IdempotencyStore& keys_;
  const ReceiverOptions options_;
  Logger& logger_;
  const Clock& clock_;

  Mutex waiters_mutex_;
  TimedCondition told_;
  Waiters waiters_ ONCEBOX_GUARDED_BY(waiters_mutex_);
  KeyLeases leases_;
};

BeginOutcome KeyGate::Impl::wait_and_begin(const IdempotencyKey& key, const std::string& owner,
                                           const std::stop_token& stop) {
  const Stopwatch waited(clock_);
  detail::Backoff pause(kLooks);
  Waiting waiting(*this, key);
  const NotifyOnStop notify(stop, waiters_mutex_, told_);
  while (true) {
    // Looks after it stands in the list: a holder that ends meanwhile tells it.
    if (may_be_free(key)) {
      BeginOutcome begun = begin(key, owner);
      if (begun.status != BeginStatus::busy) return begun;
    }
    if (stop.stop_requested() || waited.elapsed() >= options_.wait_at_most) {
      return {.status = BeginStatus::busy};
    }
    const SteadyTime look_at = clock_.steady() + pause.take();
    waiting.wait_until(std::min(look_at, waited.at(options_.wait_at_most)), stop);
  }
}

template <class Call, class LastTry>
auto KeyGate::Impl::tried(Call call, LastTry last_try) {
  Duration pause = options_.verdict_tries.first_pause;
  for (int left = options_.verdict_tries.count - 1; left > 0; --left) {
    try {
      return call();
    } catch (const Error& error) {
      if (!error.retryable()) throw;
      if (left == 1) last_try(error);
    }
    pause_until(clock_, clock_.steady() + pause);
    pause = std::min(kPauseGrowth * pause, kLongestPause);
  }
  return call();
}

KeyGate::KeyGate(IdempotencyStore& keys, const ReceiverOptions& options, Logger* logger,
                 const Clock* clock)
    : impl_((options.validate(), std::make_unique<Impl>(keys, options, logger, clock))) {}

KeyGate::~KeyGate() = default;

BeginOutcome KeyGate::enter(const IdempotencyKey& key, const std::string& owner,
                            const std::stop_token& stop) {
  BeginOutcome begun = impl_->begin(key, owner);
  if (begun.status != BeginStatus::busy) return begun;
  if (impl_->options().on_running != RunningPolicy::wait) return begun;
  return impl_->wait_and_begin(key, owner, stop);
}

void KeyGate::wake() { impl_->wake(); }

void KeyGate::warn_of_stored_result(const IdempotencyKey& key) noexcept {
  impl_->warn("stored result could not be decoded; the duplicate is answered without it", key, {});
}

class HeldKey::Impl {
 public:
  Impl(KeyGate::Impl& gate, const IdempotencyKey& key, const BeginOutcome& begun,
       const std::stop_token& caller)
      : gate_(gate),
        held_(key, begun.lease_id.value(), gate.clock()),
        context_(held_.key.str(), begun.attempts, held_.stop.get_token(), &held_.lost),
        forward_(caller, [this] { held_.stop.request_stop(); }) {
    gate_.leases().add(held_);
  }
  ~Impl() { gate_.leases().remove(held_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] ReceiveContext& context() noexcept { return context_; }
  bool complete(std::optional<std::string> result);
  void fail_with_current_exception();
  void release();
  void warn(std::string_view text, std::string_view error) noexcept {
    gate_.warn(text, held_.key, error);
  }

 private:
  [[nodiscard]] bool has_not_tried() const;

  KeyGate::Impl& gate_;
  KeyLeases::Held held_;
  ReceiveContext context_;
  std::stop_callback<std::function<void()>> forward_;
};

bool HeldKey::Impl::complete(std::optional<std::string> result) {
  gate_.leases().set_ending(held_);
  if (result && result->size() > limits::kMaxResultBytes) {
    warn("result too large to be stored; the key is completed without it", {});
    result.reset();
  }
  CompleteRequest request{.key = held_.key,
                          .lease_id = held_.lease_id,
                          .result = std::move(result),
                          .retention = gate_.options().retention};
  try {
    const CompleteOutcome outcome =
        gate_.tried([&] { return gate_.keys().complete(request); },
                    [&](const Error& error) {
                      if (error.code() != ErrorCode::overloaded || !request.result) return;
                      warn("no room for a result; the key is completed without it", error.what());
                      request.result.reset();
                    });
    gate_.tell_ended(held_.key);
    if (outcome == CompleteOutcome::processed) return true;
    warn("handler succeeded after its lease was lost", {});
    return false;
  } catch (const std::exception& error) {
    warn("handler succeeded, but that could not be recorded", error.what());
    throw UnrecordedSuccess(std::move(request), error.what());
  }
}

// Whether the exception says nothing about the work: the handler did not try, or it was asked to
// stop, unless it says so itself.
bool HeldKey::Impl::has_not_tried() const {
  try {
    throw;
  } catch (const NotNow&) {
    return true;
  } catch (const PermanentFailure&) {
    return false;
  } catch (const RetryAfter&) {
    return false;
  } catch (...) {
    return held_.stop.stop_requested();
  }
}

void HeldKey::Impl::fail_with_current_exception() {
  if (has_not_tried()) return release();
  gate_.leases().set_ending(held_);
  const FailRequest request{
      .key = held_.key, .lease_id = held_.lease_id, .error = current_exception_text()};
  gate_.tried([&] { return gate_.keys().fail(request); }, [](const Error&) {});
  gate_.tell_ended(held_.key);
}

void HeldKey::Impl::release() {
  gate_.leases().set_ending(held_);
  const ReleaseRequest request{.key = held_.key, .lease_id = held_.lease_id};
  gate_.tried([&] { return gate_.keys().release(request); }, [](const Error&) {});
  gate_.tell_ended(held_.key);
}

HeldKey::HeldKey(KeyGate& gate, const IdempotencyKey& key, const BeginOutcome& begun,
                 const std::stop_token& caller)
    : impl_(std::make_unique<Impl>(*gate.impl_, key, begun, caller)) {}

HeldKey::~HeldKey() = default;

ReceiveContext& HeldKey::context() noexcept { return impl_->context(); }

bool HeldKey::complete(std::optional<std::string> result) {
  return impl_->complete(std::move(result));
}

void HeldKey::fail_with_current_exception() noexcept {
  try {
    impl_->fail_with_current_exception();
  } catch (const std::exception& error) {
    impl_->warn("failure of a handler could not be recorded; its lease will lapse", error.what());
  } catch (...) {
    impl_->warn("failure of a handler could not be recorded; its lease will lapse", {});
  }
}

void HeldKey::release() noexcept {
  try {
    impl_->release();
  } catch (const std::exception& error) {
    impl_->warn("key could not be released; its lease will lapse", error.what());
  } catch (...) {
    impl_->warn("key could not be released; its lease will lapse", {});
  }
}

void HeldKey::warn_of_result() noexcept {
  impl_->warn("result could not be encoded; the key is completed without it", {});
}

}  // namespace oncebox::detail
