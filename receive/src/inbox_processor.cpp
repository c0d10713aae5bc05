#include "oncebox/receive/inbox_processor.hpp"

#include "oncebox/internal/backoff.hpp"
#include "oncebox/receive/inbox_processor_router.hpp"
#include "oncebox/receive/received.hpp"

namespace oncebox {

namespace {

// So that the first slash behind a source is the end of it.
std::string without_slashes(const Source& source) {
  std::string text;
  for (const char c : source.str()) {
    if (c == '%')
      text += "%25";
    else if (c == '/')
      text += "%2F";
    else
      text += c;
  }
  return text;
}

}  // namespace

std::string receiver_key_of(const MessageKey& key) {
  return without_slashes(key.source) + "/" + key.message_id.str();
}

namespace detail {

std::string name_of_message(const MessageKey& key) { return "/message/" + receiver_key_of(key); }

std::string scope_of_source(const Source& source) {
  return "/key/" + without_slashes(source) + "/";
}

Duration busy_delay(const InboxProcessorOptions& options, int deliveries) noexcept {
  if (options.busy_delay <= Duration::zero()) return options.busy_delay;
  Backoff delay({.first = options.busy_delay, .longest = options.longest_busy_delay});
  for (; deliveries > 1 && delay.pause() < options.longest_busy_delay; --deliveries) delay.grow();
  return delay.pause();
}

void tell_unrecorded(const InboxProcessorOptions& options,
                     const UnrecordedSuccess& success) noexcept {
  if (!options.on_unrecorded) return;
  try {
    options.on_unrecorded(success);
  } catch (...) {
    // Must not be taken for a failure of the work, which is done.
  }
}

void require_done(ReceiveStatus status, std::optional<OriginalState> original,
                  const std::optional<std::string>& error, Duration busy_delay) {
  switch (status) {
    case ReceiveStatus::processed:
    case ReceiveStatus::replayed:
      return;
    case ReceiveStatus::missing_key:
      throw PermanentFailure("the message has no idempotency key");
    case ReceiveStatus::busy:
      break;
    case ReceiveStatus::duplicate:
      if (original == OriginalState::completed) return;
      if (original == OriginalState::failed) {
        throw PermanentFailure("the first message with this idempotency key failed: " +
                               error.value_or("no reason is known"));
      }
      break;
  }
  throw NotNow(busy_delay, "another message with this idempotency key is being handled");
}

void throw_not_posted(PostOutcome outcome) {
  if (outcome == PostOutcome::stopped) throw Error(ErrorCode::unavailable, "the mailbox stops");
  if (outcome == PostOutcome::cancelled) {
    throw Error(ErrorCode::timeout, "the wait for room in the mailbox was cancelled");
  }
  throw Error(ErrorCode::overloaded, "the mailbox is full");
}

std::exception_ptr dropped_error(DropReason reason) {
  if (reason == DropReason::stopped) {
    return std::make_exception_ptr(
        Error(ErrorCode::unavailable, "the mailbox stopped before the message was handled"));
  }
  return std::make_exception_ptr(
      Error(ErrorCode::overloaded, "the mailbox was full, and the message was dropped"));
}

std::string routed_store(const StoreSet& stores, Routing routing, std::string_view key) {
  if (key.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos) {
    throw Error(ErrorCode::invalid_argument, "a routing key must not be blank");
  }
  if (routing == Routing::by_name) return std::string(key);
  stores.require_discovered();
  const std::vector<std::string> names = stores.names();
  if (names.empty()) throw Error(ErrorCode::not_found, "there are no stores to route to");
  return std::string(choose_by_hash(key, names));
}

void throw_store_away(std::string_view store) {
  constexpr Duration kUntilItIsBack = std::chrono::seconds{5};
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found && !error.retryable()) throw;
    throw NotNow(kUntilItIsBack, "the store " + std::string(store) +
                                     " of this message is not there now: " + error.what());
  }
}

}  // namespace detail

}  // namespace oncebox
