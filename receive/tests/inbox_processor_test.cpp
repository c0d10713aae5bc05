// The receiver in front of stored messages: by hand, through a mailbox, a dispatcher, and a set of
// stores.

#include "oncebox/receive/inbox_processor.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <future>

#include "expect_error.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/fleet/inbox_router.hpp"
#include "oncebox/receive/inbox_processor_router.hpp"
#include "receiver_fixture.hpp"

namespace oncebox {

template <>
struct PayloadCodec<Order> {
  static Order decode(const Payload& payload) {
    if (payload.bytes() == "secret garbage") throw std::runtime_error(payload.bytes());
    return {.id = payload.bytes()};
  }
};

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

Message order_message(const std::string& id, const std::string& payload = "order-1") {
  return {.key = {"shop", id}, .topic = "order.paid", .payload = Payload(payload)};
}

Message with_key(Message message, const std::string& key) {
  message.headers.set(header_names::kIdempotencyKey, key);
  return message;
}

class InboxProcessorTest : public ReceiverOnEachStore {
 protected:
  using Processor = InboxProcessor<Order, std::string>;

  /// Runs messages through a dispatcher until each is in a final state.
  void dispatch(Processor& processor, const std::vector<Message>& messages,
                const DispatcherOptions& options = {.workers = 1}) {
    for (const Message& message : messages) store_->inbox().enqueue(message);
    Handlers handlers;
    handlers.on("order.paid", processor.handler());
    Observer silent;
    Dispatcher dispatcher(store_->inbox(), handlers, options, {logger_, silent, clock_});
    dispatcher.start();
    ASSERT_TRUE(eventually([&] {
      return std::all_of(messages.begin(), messages.end(), [&](const Message& message) {
        const Status status = inbox_record(message).status;
        return status == Status::done || status == Status::dead;
      });
    }));
  }
  /// When a message whose key is busy is to come again, at a delivery of this number.
  [[nodiscard]] static Duration busy_delay(Processor& processor, int delivery) {
    const ClaimedMessage message = claimed(order_message("1"), delivery);
    try {
      processor.handle(message, HandlerContext(message, {}));
    } catch (const NotNow& not_now) {
      return not_now.delay();
    }
    ADD_FAILURE() << "expected to be asked to come again";
    return {};
  }
  [[nodiscard]] static ClaimedMessage claimed(const Message& message, int delivery = 1) {
    return {
        .message = message, .history = {.deliveries = delivery}, .owner = OwnerToken::generate()};
  }
  [[nodiscard]] MessageRecord inbox_record(const Message& message) {
    return store_->inbox().find(message.key).value();
  }
};
ONCEBOX_ON_EACH_STORE(InboxProcessorTest);

TEST_P(InboxProcessorTest, ProcessesEnvelopesAsItsReceiverDoes) {
  RecordProperty("requirement", "PKT-07");
  Processor processor(builder().build());
  EXPECT_EQ(processor.process(message_).status, ReceiveStatus::processed);
  EXPECT_EQ(processor.process(message_).status, ReceiveStatus::duplicate);
}

TEST_P(InboxProcessorTest, MessageWithoutIdempotencyKeyIsKnownByItsOwn) {
  RecordProperty("requirement", "PKT-02,PKT-07");
  Processor processor(builder().build());
  EXPECT_EQ(processor.process(order_message("1")).key.text(), "/message/shop/1");
  EXPECT_EQ(processor.process(order_message("1")).status, ReceiveStatus::duplicate);
  EXPECT_EQ(processor.process(order_message("2")).status, ReceiveStatus::processed);
  const Message keyed = with_key(order_message("3"), "pay-3");
  EXPECT_EQ(processor.process(keyed).key.text(), "pay-3");
}

Message from(const std::string& source, Message message) {
  message.key.source = source;
  return message;
}

TEST_P(InboxProcessorTest, KeysOfOneSourceHideNoMessageOfAnother) {
  RecordProperty("requirement", "PKT-02,PKT-07");
  Processor processor(builder().build());
  const Message message = with_key(order_message("1"), "42");
  for (const char* source : {"shop", "stripe", "shop/42", "%2F"}) {
    EXPECT_EQ(processor.process(from(source, message)).status, ReceiveStatus::processed) << source;
    EXPECT_EQ(processor.process(from(source, message)).status, ReceiveStatus::duplicate) << source;
  }
  EXPECT_EQ(status("/key/shop/42"), KeyStatus::processed);
  EXPECT_EQ(status("/key/shop%2F42/42"), KeyStatus::processed);
}

TEST_P(InboxProcessorTest, NoKeyOfASenderIsTheOwnKeyOfAMessage) {
  RecordProperty("requirement", "PKT-02,PKT-07");
  Processor processor(builder().build());
  Processor by_payload(builder().key_by(&Order::id).build());
  const Message real = from("stripe", order_message("evt_1"));
  for (const char* forged : {"stripe/evt_1", "/message/stripe/evt_1", "/stripe/evt_1",
                             "../stripe/evt_1", "//message/stripe/evt_1"}) {
    for (const char* source : {"shop", "stripe"}) {
      processor.process(from(source, with_key(order_message("1"), forged)));
    }
    by_payload.process(order_message("1", forged));
    const Headers headers{{"idempotencyKey", forged}};
    processor.process({.headers = headers, .payload = order_});
  }
  EXPECT_EQ(processor.process(real).status, ReceiveStatus::processed);
  EXPECT_EQ(processor.process(real).status, ReceiveStatus::duplicate);
}

TEST_P(InboxProcessorTest, KeyThatTheProgramSelectsCountsWhoeverSends) {
  RecordProperty("requirement", "PKT-02,PKT-07");
  Processor processor(builder().key_by(&Order::id).build());
  EXPECT_EQ(processor.process(message_).status, ReceiveStatus::processed);
  EXPECT_EQ(processor.process(order_message("1")).status, ReceiveStatus::duplicate);
  EXPECT_EQ(processor.process(from("web", order_message("1"))).status, ReceiveStatus::duplicate);
}

TEST_P(InboxProcessorTest, LongestNamesMakeAKey) {
  RecordProperty("requirement", "PKT-07");
  Processor processor(builder().key_prefix(std::string(255, 'p')).build());
  const Message message = from(std::string(255, '/'), order_message(std::string(255, 'i')));
  const Message keyed = with_key(message, std::string(kMaxIdempotencyKeyCodePoints, 'k'));
  for (const Message& each : {message, keyed}) {
    EXPECT_EQ(processor.process(each).status, ReceiveStatus::processed);
    EXPECT_EQ(processor.process(each).status, ReceiveStatus::duplicate);
  }
}

TEST(ReceiverKey, KeepsSourceAndIdApart) {
  RecordProperty("requirement", "PKT-07");
  EXPECT_EQ(receiver_key_of({"a/b", "c"}), "a%2Fb/c");
  EXPECT_EQ(receiver_key_of({"a", "b/c"}), "a/b/c");
  EXPECT_EQ(receiver_key_of({"a%2Fb", "c"}), "a%252Fb/c");
  EXPECT_NO_THROW(IdempotencyKey(
      receiver_key_of({Source(std::string(255, '/')), MessageId(std::string(255, 'i'))})));
}

TEST_P(InboxProcessorTest, DispatcherHandlesEachKeyOnce) {
  RecordProperty("requirement", "PKT-07");
  Processor processor(builder().build());
  const std::vector<Message> messages{with_key(order_message("1"), "pay-1"),
                                      with_key(order_message("2"), "pay-1"), order_message("3")};
  dispatch(processor, messages);
  for (const Message& message : messages) EXPECT_EQ(inbox_record(message).status, Status::done);
  EXPECT_EQ(handled_, 2);
}

TEST_P(InboxProcessorTest, PayloadThatCannotBeDecodedIsDeadAndNeverShown) {
  RecordProperty("requirement", "PKT-07");
  Processor processor(builder().build());
  const Message message = order_message("1", "secret garbage");
  dispatch(processor, {message});
  EXPECT_EQ(inbox_record(message).status, Status::dead);
  EXPECT_THAT(inbox_record(message).history.last_error.value(), Not(HasSubstr("secret")));
  EXPECT_EQ(store_->keys().find("/message/shop/1"), std::nullopt) << "no key was begun";
}

TEST_P(InboxProcessorTest, DuplicateOfWhatFailedForGoodIsDead) {
  RecordProperty("requirement", "PKT-07");
  Processor processor(
      builder([](const Order&) -> std::string { throw PermanentFailure("no such account"); })
          .on_failed(FailedKeyPolicy::suppress)
          .build());
  const Message first = with_key(order_message("1"), "pay-1");
  const Message second = with_key(order_message("2"), "pay-1");
  dispatch(processor, {first, second});
  EXPECT_EQ(inbox_record(first).history.last_error, "no such account");
  EXPECT_EQ(inbox_record(second).status, Status::dead);
  EXPECT_THAT(inbox_record(second).history.last_error.value(), HasSubstr("no such account"));
}

TEST_P(InboxProcessorTest, MessageWithoutTheKeyThatIsWantedIsDead) {
  RecordProperty("requirement", "PKT-04,PKT-07");
  Processor processor(builder().key_by(&Order::id).build(), {.fallback_key = FallbackKey::none});
  const Message keyed = order_message("1");
  const Message blank = order_message("2", " ");
  dispatch(processor, {keyed, blank});
  EXPECT_EQ(inbox_record(keyed).status, Status::done);
  EXPECT_EQ(inbox_record(blank).status, Status::dead);
  EXPECT_EQ(inbox_record(blank).history.last_error, "the message has no idempotency key");
  EXPECT_EQ(handled_, 1);
}

TEST_P(InboxProcessorTest, MessageWithoutKeyIsProcessedEachTimeIfThatIsWanted) {
  RecordProperty("requirement", "PKT-04,PKT-07");
  Processor processor(builder().on_missing_key(MissingKeyPolicy::process).build(),
                      {.fallback_key = FallbackKey::none});
  for (int times = 1; times <= 2; ++times) {
    EXPECT_EQ(processor.process(order_message("1")).status, ReceiveStatus::processed);
    EXPECT_EQ(handled_, times);
  }
}

TEST_P(InboxProcessorTest, BusyKeyIsTriedAgainLater) {
  RecordProperty("requirement", "PKT-07");
  for (const RunningPolicy policy : {RunningPolicy::suppress, RunningPolicy::busy}) {
    Processor processor(builder().on_running(policy).build(), {.busy_delay = 7s});
    const auto other = store_->keys().begin({.key = "/message/shop/1"});
    EXPECT_EQ(busy_delay(processor, 1), 7s);
    store_->keys().release({.key = "/message/shop/1", .lease_id = other.lease_id.value()});
  }
  EXPECT_EQ(handled_, 0);
}

TEST_P(InboxProcessorTest, DuplicateOutlastsItsOriginal) {
  RecordProperty("requirement", "PKT-07,R-35");
  Processor processor(builder().build());
  (void)store_->keys().begin({.key = "/message/shop/1", .lease = 300s});
  EXPECT_EQ(busy_delay(processor, 2), 20s);
  EXPECT_EQ(busy_delay(processor, 3), 40s);
  EXPECT_EQ(busy_delay(processor, 1'000'000), 30min);
}

TEST_P(InboxProcessorTest, KeysThatAreAwayCostNoAttempt) {
  RecordProperty("requirement", "PKT-07,R-35");
  constexpr int kRounds = 20;
  Processor processor(builder().build(), {.busy_delay = 7s, .longest_busy_delay = 7s});
  Handlers handlers;
  handlers.on("order.paid", processor.handler());
  Observer silent;
  Dispatcher dispatcher(store_->inbox(), handlers, {.workers = 1}, {logger_, silent, clock_});
  dispatcher.start();
  for (const char* call : {"recognise", "begin"}) {
    const Message message = order_message(call);
    probe_.fail(call, kRounds, testing::Fault::before);
    store_->inbox().enqueue(message);
    for (int round = 1; round <= kRounds; ++round) {
      ASSERT_TRUE(eventually([&] { return inbox_record(message).eligible_at > clock_.now(); }));
      ASSERT_EQ(inbox_record(message).eligible_at, clock_.now() + 7s) << call << ' ' << round;
      ASSERT_EQ(inbox_record(message).history.attempt, 0) << call << ' ' << round;
      clock_.advance(7s);
      dispatcher.wake();
    }
    EXPECT_TRUE(eventually([&] { return inbox_record(message).status == Status::done; })) << call;
  }
}

TEST_P(InboxProcessorTest, MessageWhoseKeysAreAwayComesBackEverLessOften) {
  RecordProperty("requirement", "PKT-07,R-35");
  Processor processor(builder().build(), {.busy_delay = 7s});
  probe_.fail("begin", 2, testing::Fault::before);
  EXPECT_EQ(busy_delay(processor, 1), 7s);
  EXPECT_EQ(busy_delay(processor, 2), 14s);
}

TEST_P(InboxProcessorTest, StoreThatItsHandlerMissesIsAFailureOfTheHandler) {
  RecordProperty("requirement", "PKT-07,R-35");
  Processor processor(builder([](const Order&) -> std::string {
                        throw Error(ErrorCode::unavailable, "no ledger");
                      }).build());
  const ClaimedMessage message = claimed(order_message("1"));
  expect_error(ErrorCode::unavailable,
               [&] { processor.handle(message, HandlerContext(message, {})); });
  EXPECT_EQ(status("/message/shop/1"), KeyStatus::failed);
}

TEST_P(InboxProcessorTest, SuccessThatCannotBeRecordedEndsTheMessageAllTheSame) {
  RecordProperty("requirement", "PKT-05,PKT-07");
  std::optional<CompleteRequest> kept;
  Processor processor(builder().verdict_tries({.count = 1}).build(),
                      {.on_unrecorded = [&](const UnrecordedSuccess& success) {
                        kept = success.completion();
                        throw std::runtime_error("is dropped");
                      }});
  probe_.fail("complete", 1, testing::Fault::before);
  const Message message = order_message("1");
  dispatch(processor, {message});
  EXPECT_EQ(inbox_record(message).status, Status::done);
  EXPECT_EQ(handled_, 1);
  EXPECT_TRUE(logger_.contains("handler succeeded, but that could not be recorded"));
  EXPECT_TRUE(logger_.contains("key=/message/shop/1")) << logger_.all();
  EXPECT_EQ(store_->keys().complete(kept.value()), CompleteOutcome::processed);
  EXPECT_EQ(status("/message/shop/1"), KeyStatus::processed);
}

TEST_P(InboxProcessorTest, UnrecordedSuccessOfAnotherReceiverDoesNotEndTheMessage) {
  RecordProperty("requirement", "PKT-05,PKT-07");
  // The same key in another store: only the lease tells the two apart.
  const std::unique_ptr<Store> other = make_store();
  KeysProbe other_probe(other->keys());
  Receiver inner = Receiver::over(other_probe.keys(), accept()).verdict_tries({.count = 1}).build();
  const auto forward = [&](const Envelope<Order>& message, ReceiveContext&) {
    return inner.receive(message, {.fallback_key = "/message/shop/1", .header_scope = "/key/shop/"})
        .result.value_or("none");
  };
  for (const Message& message : {order_message("1"), with_key(order_message("1"), "pay-1")}) {
    Processor processor(builder(forward).build());
    other_probe.fail("complete", 1, testing::Fault::before);
    const ClaimedMessage delivery = claimed(message);
    EXPECT_THROW(processor.handle(delivery, HandlerContext(delivery, {})), UnrecordedSuccess);
  }
  EXPECT_EQ(status("/message/shop/1"), KeyStatus::failed);
  EXPECT_EQ(status("/key/shop/pay-1"), KeyStatus::failed);
}

TEST_P(InboxProcessorTest, UnrecordedSuccessBehindAMailboxDoesNotEndTheMessage) {
  RecordProperty("requirement", "PKT-05,PKT-07");
  Processor inner(builder().key_prefix("inner:").verdict_tries({.count = 1}).build());
  MailboxProcessor<Order, std::string> mailbox(inner);
  Processor processor(builder([&](const Envelope<Order>& message, ReceiveContext&) {
                        return mailbox.post(message.headers, message.payload).get().result.value();
                      }).build());
  probe_.fail("complete", 1, testing::Fault::before);
  const ClaimedMessage delivery = claimed(with_key(order_message("1"), "pay-1"));
  EXPECT_THROW(processor.handle(delivery, HandlerContext(delivery, {})), UnrecordedSuccess);
  EXPECT_EQ(status("/key/shop/pay-1"), KeyStatus::failed);
}

TEST_P(InboxProcessorTest, MailboxSerialisesDifferentKeys) {
  RecordProperty("requirement", "PKT-07");
  std::atomic<int> inside = 0;
  Processor processor(builder([&](const Order& order) {
                        EXPECT_EQ(++inside, 1);
                        --inside;
                        return order.id;
                      }).build());
  MailboxProcessor<Order, std::string> mailbox(processor);
  std::vector<std::future<Received<std::string>>> answers;
  for (int i = 0; i < 20; ++i) {
    const Headers headers{{"idempotencyKey", "k" + std::to_string(i / 2)}};
    answers.push_back(mailbox.post(headers, Order{.id = std::to_string(i)}));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Received<std::string> answer = answers[i].get();
    EXPECT_EQ(answer.status, i % 2 == 0 ? ReceiveStatus::processed : ReceiveStatus::duplicate);
    EXPECT_EQ(answer.key.text(), "k" + std::to_string(i / 2)) << "outlives its message";
  }
}

TEST_P(InboxProcessorTest, MailboxTellsOfFailuresAndOfWhatItDrops) {
  RecordProperty("requirement", "PKT-07");
  Gate gate;
  Watched<bool> began{false};
  Processor processor(builder([&](const Order&) -> std::string {
                        began.change([](bool& value) { value = true; });
                        gate.pass();
                        throw std::runtime_error("declined");
                      }).build());
  MailboxProcessor<Order, std::string> mailbox(processor, {.capacity = 1});
  auto running = mailbox.post(headers_, order_);
  ASSERT_TRUE(began.wait_for(true));
  auto waiting = mailbox.post(headers_, order_);
  expect_error(ErrorCode::overloaded, [&] { (void)mailbox.post(headers_, order_); });
  std::jthread opener([&] {
    waiting.wait();
    gate.open();
  });
  EXPECT_EQ(mailbox.stop_now(), 1U);
  expect_error(ErrorCode::unavailable, [&] { waiting.get(); });
  EXPECT_THROW(running.get(), std::runtime_error);
  expect_error(ErrorCode::unavailable, [&] { (void)mailbox.post(headers_, order_); });
}

/// The set closes on another thread what has left.
bool is_let_go(const std::weak_ptr<MemberStore>& member) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (!member.expired() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  return member.expired();
}

/// Stores in memory, by name.
class ProcessorRouterTest : public ::testing::Test {
 protected:
  using Router = InboxProcessorRouter<Order, std::string>;

  [[nodiscard]] Router::MakeReceiver make() {
    return [this](IdempotencyStore& keys) {
      return IdempotentReceiver<Order, std::string>::over(
                 keys,
                 [this](const Order& order) {
                   handled_.change([](int& count) { ++count; });
                   return order.id;
                 })
          .build();
    };
  }

  testing::FakeClock clock_;
  NullLogger logger_;
  Observer observer_;
  Watched<int> handled_{0};
  Watched<std::vector<StoreLocation>> listed_{{{"acme", "memory:"}, {"bolt", "memory:"}}};
  StoreSet stores_{
      [this] { return listed_.get(); },
      [this](const StoreLocation&) { return std::make_unique<memory::MemoryStore>(clock_); },
      {},
      {.logger = logger_}};
};

TEST_F(ProcessorRouterTest, KeysOfATenantLiveInItsStore) {
  RecordProperty("requirement", "PKT-07");
  Router router(stores_, make());
  const Message message = order_message("1");
  EXPECT_EQ(router.route("acme")->process(message).status, ReceiveStatus::processed);
  EXPECT_EQ(router.route("bolt")->process(message).status, ReceiveStatus::processed);
  EXPECT_EQ(router.route("acme")->process(message).status, ReceiveStatus::duplicate);
  EXPECT_EQ(router.route("acme"), router.route("acme")) << "made once";
  EXPECT_TRUE(stores_.find("acme")->store().keys().is_processed("/message/shop/1"));
  expect_error(ErrorCode::not_found, [&] { (void)router.route("nobody"); });
  expect_error(ErrorCode::invalid_argument, [&] { (void)router.route(" "); });
}

TEST_F(ProcessorRouterTest, HashesAKeyToTheStoreOfItsInbox) {
  RecordProperty("requirement", "PKT-07");
  Router router(stores_, make(), Routing::by_hash);
  InboxRouter inboxes(stores_, {.routing = Routing::by_hash}, {.logger = logger_, .clock = clock_});
  for (int tenant = 0; tenant < 20; ++tenant) {
    const std::string key = "tenant-" + std::to_string(tenant);
    const Message message = order_message(key);
    inboxes.route(key)->enqueue(message);
    router.route(key)->process(message);
    for (const MemberStorePtr& member : stores_.members()) {
      EXPECT_EQ(member->store().inbox().find(message.key).has_value(),
                member->store().keys().is_processed("/message/shop/" + key));
    }
  }
}

TEST_F(ProcessorRouterTest, DispatcherOfTheSetUsesTheProcessorOfEachStore) {
  RecordProperty("requirement", "PKT-07");
  Router router(stores_, make());
  Handlers handlers;
  handlers.on("order.paid", router.handler());
  for (const char* name : {"acme", "bolt"}) {
    stores_.find(name)->store().inbox().enqueue(order_message("1"));
  }
  SetDispatcher dispatcher(stores_, handlers, round_robin(), {},
                           {.logger = logger_, .clock = clock_});
  dispatcher.start();
  ASSERT_TRUE(handled_.wait_for(2));
  dispatcher.stop();
  for (const char* name : {"acme", "bolt"}) {
    EXPECT_TRUE(stores_.find(name)->store().keys().is_processed("/message/shop/1")) << name;
  }
}

TEST_F(ProcessorRouterTest, StoreThatLeavesIsClosedWithItsProcessor) {
  RecordProperty("requirement", "PKT-07");
  Router router(stores_, make());
  std::weak_ptr<MemberStore> member = stores_.find("acme");
  router.route("acme")->process(order_message("1"));
  listed_.change([](auto& all) { all.erase(all.begin()); });
  stores_.refresh();
  EXPECT_TRUE(is_let_go(member));
  expect_error(ErrorCode::not_found, [&] { (void)router.route("acme"); });
}

TEST_F(ProcessorRouterTest, ReceiversAreMadeOutsideEveryLock) {
  RecordProperty("requirement", "PKT-07");
  Gate others_done;
  Watched<int> made{0};
  const Router::MakeReceiver make_receiver = make();
  Router router(stores_, [&](IdempotencyStore& keys) {
    made.change([](int& count) { ++count; });
    if (&keys == &stores_.find("acme")->store().keys()) others_done.pass();
    return make_receiver(keys);
  });
  auto first = std::async(std::launch::async, [&] { return router.route("acme"); });
  auto second = std::async(std::launch::async, [&] { return router.route("acme"); });
  ASSERT_TRUE(made.wait_for(2)) << "both make one";
  EXPECT_NE(router.route("bolt"), nullptr);
  others_done.open();
  EXPECT_EQ(first.get(), second.get()) << "one of the two is kept";
}

TEST_F(ProcessorRouterTest, ReceiverOfAStoreThatLeavesMeanwhileIsNotKept) {
  RecordProperty("requirement", "PKT-07");
  const Router::MakeReceiver make_receiver = make();
  Router router(stores_, [&](IdempotencyStore& keys) {
    listed_.change([](auto& all) { all.clear(); });
    stores_.refresh();
    return make_receiver(keys);
  });
  std::weak_ptr<MemberStore> member = stores_.find("acme");
  EXPECT_EQ(router.route("acme")->process(order_message("1")).status, ReceiveStatus::processed);
  EXPECT_TRUE(is_let_go(member));
}

/// Runs what it is told when a store leaves, before those who listen since later.
struct OnRemoved final : StoreSetListener {
  void on_opened(const MemberStorePtr& /*member*/) noexcept override {}
  void on_removed(const MemberStorePtr& /*member*/) noexcept override { run(); }
  std::function<void()> run;
};

TEST_F(ProcessorRouterTest, MessageOfAStoreThatLeavesIsProcessedOrTriedAgainShortly) {
  RecordProperty("requirement", "PKT-07");
  const auto leaving = std::make_shared<OnRemoved>();
  stores_.listen(leaving);
  Router router(stores_, make());
  (void)router.route("acme");
  const ClaimedMessage message{
      .message = order_message("1"), .history = {}, .owner = OwnerToken::generate()};
  const auto handle = [&] {
    HandlerContext context(message, {.store = "acme"});
    router.handler()->handle(message, context);
  };
  leaving->run = [&] {
    expect_error(ErrorCode::not_found, [&] { (void)stores_.find("acme"); });
    EXPECT_NO_THROW(handle());
  };
  listed_.change([](auto& all) { all.erase(all.begin()); });
  stores_.refresh();
  EXPECT_EQ(handled_.get(), 1);
  try {
    handle();
    ADD_FAILURE() << "expected to be asked to come again";
  } catch (const NotNow& not_now) {
    EXPECT_LE(not_now.delay(), 10s);
    EXPECT_THAT(not_now.what(), HasSubstr("the store acme of this message is not there now"));
  }
}

TEST_F(ProcessorRouterTest, MessageWhoseStoreDoesNotAnswerIsTriedAgainShortly) {
  RecordProperty("requirement", "PKT-07,R-35");
  Router at_opening(stores_, [](IdempotencyStore&) -> IdempotentReceiver<Order, std::string> {
    throw Error(ErrorCode::timeout, "no answer");
  });
  testing::FaultInjectingKeyStore away(stores_.find("acme")->store().keys(),
                                       [](std::string_view) { return testing::Fault::before; });
  const Router::MakeReceiver make_receiver = make();
  Router at_its_keys(stores_, [&](IdempotencyStore&) { return make_receiver(away); });
  const ClaimedMessage message{
      .message = order_message("1"), .history = {}, .owner = OwnerToken::generate()};
  for (Router* router : {&at_opening, &at_its_keys}) {
    HandlerContext context(message, {.store = "acme"});
    EXPECT_THROW(router->handler()->handle(message, context), NotNow);
  }
}

}  // namespace
}  // namespace oncebox
