#include "oncebox/dispatch/publisher.hpp"

#include <utility>

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

class BlockingPublisher final : public AsyncPublisher {
 public:
  explicit BlockingPublisher(std::shared_ptr<Publisher> publisher)
      : publisher_(std::move(publisher)) {}
  void start(const ClaimedMessage& message, Completion completion) override {
    HandlerContext context = completion.context();
    publisher_->publish(message, context);
    completion.done();
  }

 private:
  const std::shared_ptr<Publisher> publisher_;
};

}  // namespace

std::shared_ptr<AsyncPublisher> as_async(std::shared_ptr<Publisher> publisher) {
  if (publisher == nullptr) throw Error(ErrorCode::invalid_argument, "there is no publisher");
  return std::make_shared<BlockingPublisher>(std::move(publisher));
}

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
