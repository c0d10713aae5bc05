// Pipelines on real stores. What is no declaration is in compile_fail/.

#include "oncebox/receive/reliability_pipeline.hpp"

#include <gmock/gmock.h>

#include "expect_error.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "receiver_fixture.hpp"

namespace oncebox {
namespace {

struct AcceptOrder {
  std::string id;
  std::string customer;
};

struct OrderAccepted {
  std::string text;
};

}  // namespace

template <>
struct PayloadCodec<AcceptOrder> {
  static AcceptOrder decode(const Payload& payload) { return {payload.bytes(), "ann"}; }
};
template <>
struct PayloadCodec<OrderAccepted> {
  static std::string encode(const OrderAccepted& accepted) { return "accepted " + accepted.text; }
};

namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Sends what it is told to, for each order.
struct AcceptOrders {
  using Payload = AcceptOrder;
  using Result = std::string;
  using OutboxPayload = OrderAccepted;
  static constexpr std::string_view outbox_topic = "order.accepted";

  static ReceiverOptions policies() {
    return {.key_prefix = "accept:",
            .on_duplicate = DuplicatePolicy::replay_completed,
            .verdict_tries = {.count = 1}};
  }
  static std::string_view key(const Payload& order) { return order.id; }
  Result handle(const Payload& order, ReceiveContext& /*context*/,
                Sender<OutboxPayload>& sender) const {
    for (const std::string& name : names) {
      // What has a partition key of its own waits for nothing.
      sender.send({order.id + ' ' + name},
                  {.name = name, .partition_key = order.customer + ' ' + name});
    }
    if (fails) throw std::runtime_error("out of stock");
    return "number " + std::to_string(++*handled);
  }

  int* handled;
  std::vector<std::string> names = {"receipt"};
  bool fails = false;
};

/// A store whose keys and outbox can be made to fail.
class FailingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  [[nodiscard]] QueueStore& outbox() override { return outbox_.store(); }
  [[nodiscard]] IdempotencyStore& keys() override { return keys_.keys(); }
  [[nodiscard]] StoreProbe& outbox_probe() { return outbox_; }
  [[nodiscard]] KeysProbe& keys_probe() { return keys_; }

 private:
  StoreProbe outbox_{below().outbox()};
  KeysProbe keys_{below().keys()};
};

class ReliabilityPipelineTest : public OnEachStore {
 protected:
  template <class Declaration>
  [[nodiscard]] ReliabilityPipeline<Declaration> pipeline(Declaration declaration) {
    return ReliabilityPipeline<Declaration>(store_, std::move(declaration), {.source = "shop"},
                                            {logger_, observer_, clock_});
  }
  /// Takes out of the outbox what is in it.
  [[nodiscard]] std::vector<Message> sent() {
    std::vector<Message> messages;
    for (ClaimedMessage& claimed : store_.outbox().claim({.owner = OwnerToken::generate()})) {
      messages.push_back(std::move(claimed.message));
    }
    return messages;
  }
  [[nodiscard]] std::vector<std::string> sent_payloads() {
    std::vector<std::string> payloads;
    for (const Message& message : sent()) payloads.push_back(message.payload.bytes());
    return payloads;
  }
  /// Runs the message through a dispatcher until it is done or dead.
  [[nodiscard]] Status dispatch(const Handlers& handlers, const Message& message) {
    store_.inbox().enqueue(message);
    Dispatcher dispatcher(store_.inbox(), handlers, {.workers = 1}, {logger_, observer_, clock_});
    dispatcher.start();
    const auto status = [&] { return store_.inbox().find(message.key).value().status; };
    EXPECT_TRUE(eventually([&] { return status() == Status::done || status() == Status::dead; }));
    return status();
  }

  FailingStore store_{make_store()};
  RecordingLogger logger_;
  Observer observer_;
  int handled_ = 0;
  const Headers headers_{{"correlationId", "session-7"}, {"messageId", "m-1"}};
  const AcceptOrder order_{"order-1", "ann"};
  const Envelope<AcceptOrder> message_{headers_, order_};
};
ONCEBOX_ON_EACH_STORE(ReliabilityPipelineTest);

TEST_P(ReliabilityPipelineTest, ReceiverHasTheDeclaredKeyPoliciesAndHandler) {
  RecordProperty("requirement", "PKT-10");
  auto orders = pipeline(AcceptOrders{&handled_});
  auto receiver = orders.receiver();
  EXPECT_EQ(receiver.receive(message_).result, "number 1");
  const Received<std::string> again = receiver.receive(message_);
  EXPECT_EQ(again.status, ReceiveStatus::replayed);
  EXPECT_EQ(again.result, "number 1");
  EXPECT_EQ(again.key.text(), "order-1");
  EXPECT_TRUE(store_.keys().find("accept:order-1"));
  EXPECT_EQ(orders.receiver().receive(message_).status, ReceiveStatus::replayed)
      << "receivers of one pipeline share its keys";
}

TEST_P(ReliabilityPipelineTest, WhatIsSentIsInTheOutboxWithTopicIdAndCause) {
  RecordProperty("requirement", "PKT-10,MSG-04");
  auto orders = pipeline(AcceptOrders{&handled_});
  orders.receiver().receive(message_);
  const std::vector<Message> messages = sent();
  ASSERT_EQ(messages.size(), 1U);
  const Message& message = messages[0];
  const MessageId id = derived_id(IdempotencyKey("accept:order-1"), "order.accepted/receipt");
  EXPECT_EQ(message.key, (MessageKey{"shop", id}));
  EXPECT_EQ(message.topic, Topic("order.accepted"));
  EXPECT_EQ(message.payload, Payload("accepted order-1 receipt"));
  EXPECT_EQ(message.partition_key, PartitionKey("ann receipt"));
  EXPECT_EQ(message.headers.correlation_id(), "session-7");
  EXPECT_EQ(message.headers.causation_id(), "m-1");
  EXPECT_TRUE(orders.outbox().find(id));
}

TEST_P(ReliabilityPipelineTest, DuplicateSendsNothing) {
  RecordProperty("requirement", "PKT-10");
  auto orders = pipeline(AcceptOrders{&handled_, {"receipt", "stock"}});
  auto receiver = orders.receiver();
  receiver.receive(message_);
  EXPECT_THAT(sent_payloads(), ElementsAre("accepted order-1 receipt", "accepted order-1 stock"));
  receiver.receive(message_);
  EXPECT_THAT(sent_payloads(), IsEmpty());
}

TEST_P(ReliabilityPipelineTest, HandlerThatThrowsSendsNothing) {
  RecordProperty("requirement", "PKT-10");
  auto orders = pipeline(AcceptOrders{.handled = &handled_, .fails = true});
  auto receiver = orders.receiver();
  EXPECT_THROW(receiver.receive(message_), std::runtime_error);
  EXPECT_THAT(sent(), IsEmpty());
  orders.declaration().fails = false;
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::processed);
  EXPECT_EQ(sent().size(), 1U);
}

TEST_P(ReliabilityPipelineTest, HandlerHasFailedWhenTheOutboxDoesNotTakeWhatItSends) {
  RecordProperty("requirement", "PKT-10");
  auto orders = pipeline(AcceptOrders{&handled_, {"receipt", "stock"}});
  auto receiver = orders.receiver();
  store_.outbox_probe().set_plan([](std::string_view call) {
    return call == "enqueue" ? testing::Fault::before : testing::Fault::none;
  });
  expect_error(ErrorCode::unavailable, [&] { receiver.receive(message_); });
  EXPECT_EQ(store_.keys().find("accept:order-1").value().status, KeyStatus::failed);
  store_.outbox_probe().set_plan([](std::string_view) { return testing::Fault::none; });
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::processed);
  EXPECT_EQ(sent().size(), 2U);
}

TEST_P(ReliabilityPipelineTest, HandlerThatRunsAgainDoesNotSendTwice) {
  RecordProperty("requirement", "PKT-10");
  auto orders = pipeline(AcceptOrders{&handled_, {"receipt", "stock"}});
  auto receiver = orders.receiver();
  store_.keys_probe().fail("complete", 1, testing::Fault::before);
  EXPECT_THROW(receiver.receive(message_), UnrecordedSuccess);
  EXPECT_EQ(sent().size(), 2U);

  // As after a crash: nobody knows that it was handled, and its lease ends.
  clock_.advance(AcceptOrders::policies().lease + 1s);
  orders.declaration().names = {"stock", "receipt"};
  EXPECT_EQ(orders.receiver().receive(message_).status, ReceiveStatus::processed);
  EXPECT_EQ(handled_, 2);
  for (const char* const name : {"order.accepted/receipt", "order.accepted/stock"}) {
    const MessageKey key{"shop", derived_id(IdempotencyKey("accept:order-1"), name)};
    EXPECT_EQ(store_.outbox().find(key).value().history.duplicates, 1) << name;
  }
}

/// Sends something else each time it is called.
struct SendNews {
  using Payload = AcceptOrder;
  using OutboxPayload = OrderAccepted;
  static constexpr std::string_view outbox_topic = "news";

  static ReceiverOptions policies() { return {.verdict_tries = {.count = 1}}; }
  static std::string_view key(const Payload& order) { return order.id; }
  void handle(const Payload& /*order*/, Sender<OutboxPayload>& sender) const {
    ++*handled;
    for (int i = 0; i < messages; ++i) sender.send({"news " + std::to_string(*handled)});
  }

  int* handled;
  int messages = 1;
};

TEST_P(ReliabilityPipelineTest, HandlerHasFailedWhenTheOutboxRefusesOtherContentUnderAKnownId) {
  RecordProperty("requirement", "PKT-10");
  for (const HashMismatchPolicy policy :
       {HashMismatchPolicy::reject, HashMismatchPolicy::quarantine}) {
    for (const int messages : {1, 2}) {
      ReliabilityPipeline<SendNews> news(
          store_, {&handled_, messages},
          {.source = "shop", .enqueue = {.on_hash_mismatch = policy}},
          {logger_, observer_, clock_});
      const bool rejects = policy == HashMismatchPolicy::reject;
      const AcceptOrder order{(rejects ? "r-" : "q-") + std::to_string(messages), "ann"};
      store_.keys_probe().fail("complete", 1, testing::Fault::before);
      EXPECT_THROW(news.receiver().receive({headers_, order}), UnrecordedSuccess);
      clock_.advance(ReceiverOptions{}.lease + 1s);
      EXPECT_THROW(news.receiver().receive({headers_, order}), PermanentFailure);
      EXPECT_EQ(store_.keys().find(IdempotencyKey(order.id)).value().status, KeyStatus::failed);
    }
  }
}

TEST_P(ReliabilityPipelineTest, ProcessorIsTheHandlerOfADispatcher) {
  RecordProperty("requirement", "PKT-10,MSG-04");
  auto orders = pipeline(AcceptOrders{&handled_});
  auto processor = orders.processor();
  Handlers handlers;
  handlers.on("order.accept", processor.handler());
  const Message first{.key = {"web", "1"}, .topic = "order.accept", .payload = "order-1"};
  const Message second{.key = {"web", "2"}, .topic = "order.accept", .payload = "order-1"};
  EXPECT_EQ(dispatch(handlers, first), Status::done);
  EXPECT_EQ(dispatch(handlers, second), Status::done);
  EXPECT_EQ(handled_, 1);
  const std::vector<Message> messages = sent();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].headers.causation_id(), "1");
}

/// The least that can be declared.
struct CountOrders {
  using Payload = std::string;
  void handle(const Payload& /*order*/) { ++*handled; }

  int* handled;
};

TEST_P(ReliabilityPipelineTest, DefaultsAreTheHeaderAndNoResult) {
  RecordProperty("requirement", "PKT-10");
  auto orders = pipeline(CountOrders{&handled_});
  auto receiver = orders.receiver();
  const std::string order = "order-1";
  const Headers keyed{{"idempotencyKey", "key-1"}};
  EXPECT_EQ(receiver.receive({headers_, order}).status, ReceiveStatus::missing_key);
  EXPECT_EQ(receiver.receive({keyed, order}).status, ReceiveStatus::processed);
  EXPECT_EQ(receiver.receive({keyed, order}).status, ReceiveStatus::duplicate);
  EXPECT_EQ(handled_, 1);
}

/// The whole message, and no key.
struct ForwardAll {
  using Payload = std::string;
  using OutboxPayload = std::string;
  static constexpr std::string_view outbox_topic = "forwarded";

  static ReceiverOptions policies() { return {.on_missing_key = MissingKeyPolicy::process}; }
  static std::optional<std::string> key(const Envelope<Payload>& /*message*/) { return {}; }
  void handle(const Envelope<Payload>& message, ReceiveContext& /*context*/,
              Sender<OutboxPayload>& sender) const {
    sender.send(message.payload);
    sender.send(std::string(message.headers.correlation_id().value_or("-")));
  }
};

TEST_P(ReliabilityPipelineTest, WithoutKeyEachIsSentUnderANewId) {
  RecordProperty("requirement", "PKT-10");
  auto all = pipeline(ForwardAll{});
  auto receiver = all.receiver();
  const std::string text = "text";
  receiver.receive({headers_, text});
  receiver.receive({headers_, text});
  EXPECT_THAT(sent_payloads(), ElementsAre("text", "session-7", "text", "session-7"));
}

/// Writes a row, sends, and fails the first time it is called.
struct StoreOrders {
  using Payload = AcceptOrder;
  using OutboxPayload = OrderAccepted;
  static constexpr const char* outbox_topic = "order.stored";

  void handle(const Payload& order, Transaction& transaction, HandlerContext& /*context*/,
              Sender<OutboxPayload>& sender) const {
    if (!orders->insert(transaction, order.id)) throw PermanentFailure("there is such a row");
    sender.send({order.id});
    sender.send({"again " + order.id});
    if ((*calls)++ == 0) throw RetryAfter(1ms, "not yet");
  }

  OwnTable* orders;
  int* calls;
};

class TransactionalPipelineTest : public ReliabilityPipelineTest {};
INSTANTIATE_TEST_SUITE_P(Stores, TransactionalPipelineTest,
                         ::testing::Values(database_under_test()),
                         [](const auto& backend) { return backend_name(backend.param); });

TEST_P(TransactionalPipelineTest, WritesMessagesAndTheEndOfTheDeliveryAreOne) {
  RecordProperty("requirement", "PKT-10,MSG-04");
  int calls = 0;
  const std::unique_ptr<OwnTable> rows = make_own_table();
  auto orders = pipeline(StoreOrders{rows.get(), &calls});
  Handlers handlers;
  handlers.on("order.accept", orders.transactional_handler());
  const Message message{.key = {"web", "1"}, .topic = "order.accept", .payload = "order-1"};
  store_.inbox().enqueue(message);
  Dispatcher dispatcher(store_.inbox(), handlers, {.workers = 1}, {logger_, observer_, clock_});
  dispatcher.start();
  const auto record = [&] { return store_.inbox().find(message.key).value(); };
  ASSERT_TRUE(eventually([&] { return record().history.attempt == 1; }));
  EXPECT_THAT(sent(), IsEmpty()) << "rolled back";
  clock_.advance(1s);
  dispatcher.wake();
  // The row of the first call is gone, or this one could not be written.
  ASSERT_TRUE(eventually([&] { return record().status == Status::done; }));
  const Message again{.key = {"web", "2"}, .topic = "order.accept", .payload = "order-1"};
  EXPECT_EQ(dispatch(handlers, again), Status::dead) << "the row of the second call stands";

  const std::vector<Message> messages = sent();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].payload, Payload("accepted order-1"));
  EXPECT_EQ(messages[0].topic, Topic("order.stored"));
  EXPECT_EQ(messages[0].key.message_id, derived_id(IdempotencyKey("web/1"), "order.stored#0"));
  EXPECT_EQ(messages[1].key.message_id, derived_id(IdempotencyKey("web/1"), "order.stored#1"));
  EXPECT_EQ(messages[1].headers.causation_id(), "1");
}

/// Sends what no outbox that rejects takes twice.
struct StoreNews {
  using Payload = AcceptOrder;
  using OutboxPayload = OrderAccepted;
  static constexpr std::string_view outbox_topic = "news";

  static void handle(const Payload& /*order*/, Transaction& /*transaction*/,
                     Sender<OutboxPayload>& sender) {
    sender.send({"news"});
  }
};

TEST_P(TransactionalPipelineTest, MessageIsDeadWhenTheOutboxRefusesWhatFollowsFromIt) {
  RecordProperty("requirement", "PKT-10");
  ReliabilityPipeline<StoreNews> news(
      store_, {}, {.source = "shop", .enqueue = {.on_hash_mismatch = HashMismatchPolicy::reject}},
      {logger_, observer_, clock_});
  const MessageId id = derived_id(IdempotencyKey("web/1"), "news#0");
  news.outbox().enqueue({.topic = "news", .payload = "other news", .id = id});
  Handlers handlers;
  handlers.on("order.accept", news.transactional_handler());
  const Message message{.key = {"web", "1"}, .topic = "order.accept", .payload = "order-1"};
  EXPECT_EQ(dispatch(handlers, message), Status::dead);
  EXPECT_THAT(sent_payloads(), ElementsAre("other news"));
}

TEST(Sender, CollectsUnderIdsThatStayTheSame) {
  RecordProperty("requirement", "PKT-10");
  Sender<OrderAccepted> first("order.accepted", "key");
  first.send({"a"});
  first.send({"b"}, {.name = "0"});
  Sender<OrderAccepted> again("order.accepted", "key");
  again.send({"a"});
  EXPECT_EQ(first.messages().at(0).id, again.messages().at(0).id);
  EXPECT_NE(first.messages().at(0).id, first.messages().at(1).id) << "a name is no number";
  EXPECT_EQ(first.take().size(), 2U);
  EXPECT_TRUE(first.messages().empty());
}

TEST(Sender, OneNameIsSentOnce) {
  RecordProperty("requirement", "PKT-10");
  Sender<OrderAccepted> sender("order.accepted", "key");
  sender.send({"a"}, {.name = "receipt"});
  expect_error(ErrorCode::conflict, [&] { sender.send({"b"}, {.name = "receipt"}); });
  EXPECT_EQ(sender.messages().size(), 1U);
}

}  // namespace
}  // namespace oncebox
