#include "oncebox/dispatch/outbox_dispatcher.hpp"

#include "effective_options.hpp"
#include "handler_calls.hpp"
#include "oncebox/error.hpp"
#include "routes.hpp"

namespace oncebox {

namespace {

class PublishingHandler final : public Handler, public dispatcher::PublishesMessages {
 public:
  explicit PublishingHandler(std::shared_ptr<Publisher> publisher)
      : publisher_(std::move(publisher)) {}
  void handle(const ClaimedMessage& message, HandlerContext& context) override {
    try {
      publisher_->publish(message, context);
    } catch (const RetryAfter& asked) {
      throw dispatcher::RetryNotBefore(asked.delay(), asked.what());
    }
  }

 private:
  const std::shared_ptr<Publisher> publisher_;
};

class AsyncPublishingHandler final : public AsyncHandler, public dispatcher::PublishesMessages {
 public:
  explicit AsyncPublishingHandler(std::shared_ptr<AsyncPublisher> publisher)
      : publisher_(std::move(publisher)) {}
  void start(const ClaimedMessage& message, Completion completion) override {
    publisher_->start(message, std::move(completion));
  }

 private:
  const std::shared_ptr<AsyncPublisher> publisher_;
};

void require_publisher(const void* publisher, const TopicPattern& pattern) {
  if (publisher != nullptr) return;
  throw Error(ErrorCode::invalid_argument, "no publisher for the topic pattern " + pattern.str());
}

}  // namespace

Publishers& Publishers::on(TopicPattern pattern, std::shared_ptr<Publisher> publisher,
                           const HandlerOptions& options) {
  require_publisher(publisher.get(), pattern);
  handlers_.on(std::move(pattern), std::make_shared<PublishingHandler>(std::move(publisher)),
               options);
  return *this;
}

Publishers& Publishers::on_async(TopicPattern pattern, std::shared_ptr<AsyncPublisher> publisher,
                                 const HandlerOptions& options) {
  require_publisher(publisher.get(), pattern);
  handlers_.on_async(std::move(pattern),
                     std::make_shared<AsyncPublishingHandler>(std::move(publisher)), options);
  return *this;
}

OutboxDispatcher::OutboxDispatcher(QueueStore& outbox, const Publishers& publishers,
                                   const DispatcherOptions& options,
                                   const Surroundings& surroundings)
    : dispatcher_(outbox, publishers.handlers(), dispatcher::for_outbox(options), surroundings) {}

OutboxDispatcher::OutboxDispatcher(Store& store, const Publishers& publishers,
                                   const DispatcherOptions& options,
                                   const Surroundings& surroundings)
    : OutboxDispatcher(store.outbox(), publishers, options, surroundings) {}

}  // namespace oncebox
