#include "oncebox/dispatch/publisher.hpp"

#include "oncebox/error.hpp"

namespace oncebox {

namespace {

bool is_refused_for_good(const Error& error) {
  return error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::out_of_range;
}

void require_taken(const EnqueueOutcome& outcome) {
  if (outcome.status == EnqueueStatus::rejected) {
    throw PermanentFailure("rejected: the inbox knows other content under this key");
  }
  if (outcome.status == EnqueueStatus::quarantined) {
    throw PermanentFailure("quarantined as " + outcome.quarantined_as.value().str() +
                           ": the inbox knows other content under this key");
  }
}

}  // namespace

void InboxPublisher::publish(const ClaimedMessage& message, HandlerContext& /*context*/) {
  Message copy = message.message;
  copy.due_at.reset();  // it is over
  try {
    require_taken(inbox_ != nullptr ? inbox_->enqueue(std::move(copy))
                                    : queue_->enqueue(copy, options_));
  } catch (const Error& error) {
    if (is_refused_for_good(error)) throw PermanentFailure(error.what());
    throw;
  }
}

}  // namespace oncebox
