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

}  // namespace

Publishers& Publishers::on(TopicPattern pattern, std::shared_ptr<Publisher> publisher,
                           const HandlerOptions& options) {
  if (publisher == nullptr) {
    throw Error(ErrorCode::invalid_argument, "no publisher for the topic pattern " + pattern.str());
  }
  handlers_.on(std::move(pattern), std::make_shared<PublishingHandler>(std::move(publisher)),
               options);
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
