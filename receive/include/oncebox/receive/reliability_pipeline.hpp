#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "oncebox/causation.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/dispatch/handlers.hpp"
#include "oncebox/log.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/receive/detail/pipeline_declaration.hpp"
#include "oncebox/receive/idempotent_receiver.hpp"
#include "oncebox/receive/inbox_processor.hpp"
#include "oncebox/receive/receiver_options.hpp"
#include "oncebox/sender.hpp"
#include "oncebox/store.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox {

/// From a message to what follows from it, declared in one place (PKT-10):
///
///     struct AcceptOrders {
///       using Payload = AcceptOrder;
///       using Result = std::string;          // left out: the handler answers nothing
///       using OutboxPayload = OrderAccepted;  // left out, with the topic: it sends nothing
///       static constexpr std::string_view outbox_topic = "order.accepted";
///
///       static ReceiverOptions policies() {  // left out: those of `ReceiverOptions`
///         return {.on_duplicate = DuplicatePolicy::replay_completed};
///       }
///       static std::string_view key(const Payload& order) {  // left out: the header
///         return order.id;
///       }
///       Result handle(const Payload& order, ReceiveContext&, Sender<OutboxPayload>& sender);
///     };
///
///     ReliabilityPipeline<AcceptOrders> pipeline(store);
///     auto receiver = pipeline.receiver();    // for calls
///     auto processor = pipeline.processor();  // for stored messages
///
/// `handle` has any form that `IdempotentReceiver` takes, with the sender behind if it sends. A
/// declaration that is wrong does not compile, and one sentence says why.
///
/// **What is promised.** What holds for an `IdempotentReceiver` holds here. What the handler has
/// sent is put into the outbox, all of it in one transaction, after the handler has returned and
/// before the key is completed; so a key that is completed has sent everything, and a handler that
/// throws has sent nothing. If the outbox does not take it all, the handler counts as failed; what
/// it rejects or quarantines as other content under a known id is a `PermanentFailure`.
///
/// **What is not.** The handler's own effects, the outbox and the key are three transactions. When
/// the process dies between them, the handler runs again once the lease has ended, although it has
/// done its work before. It does not send twice: ids of messages are derived from the key, see
/// `SendOptions::name`, and the outbox recognises them; if their content has changed it does as
/// `OutboxOptions::enqueue` says. Only a message without a key that is processed all the same is
/// sent under a new id each time. The ids are unique within a store: pipelines of several stores
/// that send to one receiver have different `OutboxOptions::source`s.
///
/// **In one transaction.** With a `Transaction&` behind the payload the handler's own writes, the
/// messages that it sends and the end of the delivery are committed together or not at all:
///
///     void handle(const Payload& order, Transaction& transaction, Sender<OutboxPayload>& sender);
///
///     handlers.on("order.accept", pipeline.transactional_handler());
///
/// with a `HandlerContext&` behind the transaction if wanted. It has no key, policies and result:
/// the inbox recognises its message by source and id, and by nothing else. What
/// `TransactionalHandler` says holds.
///
/// **Threads.** One declaration object serves all calls: `handle` and `key` are called from several
/// threads at once.
template <class Declaration>
class ReliabilityPipeline {
  static_assert(detail::check_declaration<Declaration>());

 public:
  using Payload = detail::PayloadOf<Declaration>;
  // One that cannot be stored was reported above.
  using Result = std::conditional_t<StorableResult<detail::ResultOf<Declaration>>,
                                    detail::ResultOf<Declaration>, std::monostate>;
  using Receiver = IdempotentReceiver<Payload, Result>;
  using Processor = InboxProcessor<Payload, Result>;

  /// The store and the surroundings are borrowed. They outlive the pipeline, and it outlives
  /// all that it makes. The options are those of the outbox, where there is one. Throws as `Outbox`
  /// does, and `invalid_argument` when the outbox topic is none.
  explicit ReliabilityPipeline(Store& store, Declaration declaration = {},
                               const OutboxOptions& options = {},
                               const Surroundings& surroundings = {})
      : store_(store),
        logger_(surroundings.logger),
        clock_(surroundings.clock),
        declaration_(std::move(declaration)) {
    // A topic that is none was reported above.
    if constexpr (kSends && detail::WellDeclaredOutboxTopic<Declaration>) {
      topic_.emplace(Declaration::outbox_topic);
      outbox_.emplace(store, options, surroundings);
    }
  }

  ReliabilityPipeline(const ReliabilityPipeline&) = delete;
  ReliabilityPipeline& operator=(const ReliabilityPipeline&) = delete;

  /// A new one; any number of them may be in use. Throws as `ReceiverOptions::validate` does.
  [[nodiscard]] Receiver receiver()
    requires detail::KeyedDeclaration<Declaration>
  {
    auto builder = Receiver::over(
        store_.keys(), [this](const Envelope<Payload>& message, ReceiveContext& context) {
          return handle(message, context);
        });
    builder.log_to(logger_).clock(clock_);
    if constexpr (detail::DeclaresPolicies<Declaration>) {
      builder.options(std::as_const(declaration_).policies());
    }
    if constexpr (detail::DeclaresKey<Declaration>) {
      builder.key_by(detail::DeclaredKey<Declaration>{&declaration_});
    }
    return builder.build();
  }

  /// A receiver in front of stored messages; its `handler()` is for a dispatcher.
  [[nodiscard]] Processor processor(const InboxProcessorOptions& options = {})
    requires detail::KeyedDeclaration<Declaration> && DecodablePayload<Payload>
  {
    return Processor(receiver(), options);
  }

  /// For `Handlers::on`.
  [[nodiscard]] std::shared_ptr<TransactionalHandler> transactional_handler()
    requires detail::TransactionalDeclaration<Declaration>
  {
    const auto call = [this](const ClaimedMessage& message, Transaction& transaction,
                             HandlerContext& context) { handle(message, transaction, context); };
    return std::make_shared<detail::CallableTransactionalHandler<decltype(call)>>(call);
  }

  /// Where the handler's messages go, for sending by hand, for looking them up, and for
  /// dispatchers.
  [[nodiscard]] Outbox& outbox() noexcept
    requires detail::Sends<Declaration>
  {
    return *outbox_;
  }

  [[nodiscard]] Declaration& declaration() noexcept { return declaration_; }

 private:
  static constexpr bool kSends = detail::Sends<Declaration>;

  Result handle(const Envelope<Payload>& message, ReceiveContext& context) {
    if constexpr (kSends) {
      Sender<detail::OutboxPayloadOf<Declaration>> sender(*topic_, context.key());
      Result result = detail::call_behind_key(declaration_, message, context, sender);
      enqueue(sender.take(), message);
      return result;
    } else {
      return detail::call_behind_key(declaration_, message, context);
    }
  }

  void enqueue(std::vector<OutboxMessage> sent, const Cause& cause) {
    // Single messages of several threads share a commit.
    if (sent.size() == 1) {
      const OutboxReceipt receipt = outbox_->enqueue(std::move(sent.front()), cause);
      require_taken({&receipt, 1});
    } else if (!sent.empty()) {
      require_taken(outbox_->enqueue_all(std::move(sent), cause));
    }
  }

  void handle(const ClaimedMessage& message, Transaction& transaction, HandlerContext& context) {
    const Payload& payload = detail::decoded<Payload>(message.message.payload);
    if constexpr (kSends) {
      Sender<detail::OutboxPayloadOf<Declaration>> sender(*topic_,
                                                          receiver_key_of(message.message.key));
      detail::call_in_transaction(declaration_, payload, transaction, context, sender);
      if (sender.messages().empty()) return;
      require_taken(outbox_->enqueue_all(sender.take(), transaction, context));
    } else {
      detail::call_in_transaction(declaration_, payload, transaction, context);
    }
  }

  Store& store_;
  Logger& logger_;
  const Clock& clock_;
  Declaration declaration_;
  std::optional<Topic> topic_;
  std::optional<Outbox> outbox_;
};

}  // namespace oncebox
