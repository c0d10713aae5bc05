#include "oncebox/inbox_processor.hpp"

#include "oncebox/inbox_processor_router.hpp"
#include "oncebox/received.hpp"

namespace oncebox {

std::string receiver_key_of(const MessageKey& key) {
  std::string text;
  for (const char c : key.source.str()) {
    if (c == '%')
      text += "%25";
    else if (c == '/')
      text += "%2F";
    else
      text += c;
  }
  return text + "/" + key.message_id.str();
}

namespace detail {

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
  throw RetryAfter(busy_delay, "another message with this idempotency key is being handled");
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
  const std::vector<std::string> names = stores.names();
  if (names.empty()) throw Error(ErrorCode::not_found, "there are no stores to route to");
  return std::string(choose_by_hash(key, names));
}

}  // namespace detail

}  // namespace oncebox
