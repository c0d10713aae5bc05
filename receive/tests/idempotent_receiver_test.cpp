// What a receiver answers, whatever the key, the policies and the store do.

#include "oncebox/receive/idempotent_receiver.hpp"

#include <gmock/gmock.h>

#include <stop_token>

#include "counted_allocations.hpp"
#include "expect_error.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/limits.hpp"
#include "receiver_fixture.hpp"

namespace oncebox {

struct Receipt {
  int number = 0;
};

template <>
struct ResultCodec<Receipt> {
  static std::string encode(const Receipt& receipt) {
    if (receipt.number < 0) throw std::runtime_error("no such receipt");
    return "receipt:" + std::to_string(receipt.number);
  }
  static std::optional<Receipt> decode(std::string_view text) {
    if (text == "receipt:broken") throw std::runtime_error("broken");
    if (!text.starts_with("receipt:")) return std::nullopt;
    return Receipt{std::stoi(std::string(text.substr(8)))};
  }
};

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class IdempotentReceiverTest : public ReceiverOnEachStore {};
ONCEBOX_ON_EACH_STORE(IdempotentReceiverTest);

TEST_P(IdempotentReceiverTest, FirstMessageIsProcessedAndItsDuplicateSuppressed) {
  RecordProperty("requirement", "PKT-01,PKT-03,PKT-06");
  Receiver receiver = builder().build();
  const Received<std::string> first = receiver.receive(message_);
  EXPECT_EQ(first.status, ReceiveStatus::processed);
  EXPECT_EQ(first.key.text(), "accept-42");
  EXPECT_EQ(first.result, "receipt 1 for order-1");
  EXPECT_EQ(first.original, std::nullopt);
  EXPECT_TRUE(first.done());
  const Received<std::string> second = receiver.receive(message_);
  EXPECT_EQ(second.status, ReceiveStatus::duplicate);
  EXPECT_EQ(second.key.text(), "accept-42");
  EXPECT_EQ(second.result, std::nullopt);
  EXPECT_EQ(second.original, OriginalState::completed);
  EXPECT_TRUE(second.done());
  EXPECT_EQ(handled_, 1);
}

TEST_P(IdempotentReceiverTest, SuccessIsStoredWithItsResultAndKeptForTheRetention) {
  RecordProperty("requirement", "PKT-05,PKT-06");
  Receiver receiver = builder().owner("web-1").retention(1h).build();
  receiver.receive(message_);
  const KeyRecord stored = record("accept-42").value();
  EXPECT_EQ(stored.status, KeyStatus::processed);
  EXPECT_EQ(stored.result, "\"receipt 1 for order-1\"");
  EXPECT_EQ(stored.owner, "web-1");
  clock_.advance(1h);
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::processed) << "forgotten by now";
}

TEST_P(IdempotentReceiverTest, CompletedResultIsReplayed) {
  RecordProperty("requirement", "PKT-01,PKT-03");
  Receiver receiver = builder().on_duplicate(DuplicatePolicy::replay_completed).build();
  receiver.receive(message_);
  const Received<std::string> again = receiver.receive(message_);
  EXPECT_EQ(again.status, ReceiveStatus::replayed);
  EXPECT_EQ(again.result, "receipt 1 for order-1");
  EXPECT_EQ(again.original, OriginalState::completed);
  EXPECT_EQ(handled_, 1);
}

TEST_P(IdempotentReceiverTest, ResultThatCannotBeReadIsSuppressed) {
  RecordProperty("requirement", "PKT-03");
  Receiver receiver = builder().on_duplicate(DuplicatePolicy::replay_completed).build();
  store_->keys().mark_processed("accept-41");
  const Headers without_any{{"idempotencyKey", "accept-41"}};
  EXPECT_EQ(receiver.receive({without_any, order_}).status, ReceiveStatus::duplicate);
  EXPECT_FALSE(logger_.contains("stored result")) << "there is none";
  store_->keys().complete({.key = "accept-42", .result = "{not a string"});
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::duplicate);
  EXPECT_TRUE(logger_.contains("stored result could not be decoded")) << logger_.all();
  EXPECT_TRUE(logger_.contains("accept-42"));
  EXPECT_FALSE(logger_.contains("{not a string"));
  const Headers without_result{{"idempotencyKey", "accept-43"}};
  store_->keys().mark_processed("accept-43");
  const Received<std::string> answer = receiver.receive({without_result, order_});
  EXPECT_EQ(answer.status, ReceiveStatus::duplicate);
  EXPECT_EQ(answer.original, OriginalState::completed);
  EXPECT_EQ(handled_, 0);
}

TEST_P(IdempotentReceiverTest, ResultsOfOnesOwnTypeAreReplayedThroughTheirCodec) {
  RecordProperty("requirement", "PKT-03,PKT-05");
  int number = 6;
  auto receiver = IdempotentReceiver<Order, Receipt>::over(
                      probe_.keys(), [&](const Order&) { return Receipt{++number}; })
                      .on_duplicate(DuplicatePolicy::replay_completed)
                      .log_to(logger_)
                      .build();
  receiver.receive(message_);
  EXPECT_EQ(receiver.receive(message_).result.value().number, 7);
  const Headers broken{{"idempotencyKey", "broken"}};
  store_->keys().complete({.key = "broken", .result = "receipt:broken"});
  EXPECT_EQ(receiver.receive({broken, order_}).status, ReceiveStatus::duplicate);
  number = -9;
  const Headers unwritable{{"idempotencyKey", "unwritable"}};
  EXPECT_EQ(receiver.receive({unwritable, order_}).status, ReceiveStatus::processed);
  EXPECT_EQ(receiver.receive({unwritable, order_}).status, ReceiveStatus::duplicate);
  EXPECT_TRUE(logger_.contains("result could not be encoded"));
}

TEST_P(IdempotentReceiverTest, ResultThatIsTooLargeIsLeftOutAndLogged) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver =
      builder([](const Order&) { return std::string(limits::kMaxResultBytes, 'x'); })
          .on_duplicate(DuplicatePolicy::replay_completed)
          .build();
  EXPECT_EQ(receiver.receive(message_).result.value().size(), limits::kMaxResultBytes);
  EXPECT_EQ(record("accept-42").value().result, std::nullopt);
  EXPECT_EQ(status("accept-42"), KeyStatus::processed);
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::duplicate);
  EXPECT_TRUE(logger_.contains("result too large")) << logger_.all();
  EXPECT_FALSE(logger_.contains("xxx"));
}

TEST_P(IdempotentReceiverTest, MissingOrBlankKeyIsRejectedByDefault) {
  RecordProperty("requirement", "PKT-02,PKT-04");
  Receiver receiver = builder().build();
  for (const char* blank : {"", " ", " \t\r\n"}) {
    const Headers headers{{"idempotencyKey", blank}};
    const Received<std::string> answer = receiver.receive({headers, order_});
    EXPECT_EQ(answer.status, ReceiveStatus::missing_key);
    EXPECT_FALSE(answer.done());
  }
  const Headers none;
  EXPECT_EQ(receiver.receive({none, order_}).status, ReceiveStatus::missing_key);
  EXPECT_EQ(handled_, 0);
}

TEST_P(IdempotentReceiverTest, MessageWithoutKeyCanBeProcessedWithoutProtection) {
  RecordProperty("requirement", "PKT-04");
  Receiver receiver = builder().on_missing_key(MissingKeyPolicy::process).build();
  const Headers none;
  for (int times = 1; times <= 2; ++times) {
    const Received<std::string> answer = receiver.receive({none, order_});
    EXPECT_EQ(answer.status, ReceiveStatus::processed);
    EXPECT_TRUE(answer.key.blank());
    EXPECT_EQ(handled_, times);
  }
  EXPECT_EQ(probe_.calls("begin"), 0);
}

TEST_P(IdempotentReceiverTest, KeyIsFoundInThePayloadOrAnotherHeader) {
  RecordProperty("requirement", "PKT-02");
  Receiver by_member = builder().key_by(&Order::id).build();
  const Received<std::string> borrowed = by_member.receive(message_);
  EXPECT_EQ(borrowed.key.text(), "order-1");
  EXPECT_EQ(borrowed.key.text().data(), order_.id.data()) << "points into the message";
  Receiver computed =
      builder()
          .key_by([](const Order& order) { return "amount-" + std::to_string(order.amount); })
          .build();
  EXPECT_EQ(computed.receive(message_).key.text(), "amount-42");
  EXPECT_EQ(computed.receive(message_).status, ReceiveStatus::duplicate);
  const Headers headers{{"requestId", "r-1"}};
  Receiver by_header = builder().key_by_header("requestId").build();
  EXPECT_EQ(by_header.receive({headers, order_}).key.text(), "r-1");
  Receiver by_both =
      builder()
          .key_by([](const Envelope<Order>& message) -> std::optional<std::string> {
            if (!message.headers.get("requestId")) return std::nullopt;
            return message.payload.id + "/" + std::string(*message.headers.get("requestId"));
          })
          .build();
  EXPECT_EQ(by_both.receive({headers, order_}).key.text(), "order-1/r-1");
  EXPECT_EQ(by_both.receive(message_).status, ReceiveStatus::missing_key);
}

TEST_P(IdempotentReceiverTest, FallbackKeyIsUsedOnlyWhenNoneIsFound) {
  RecordProperty("requirement", "PKT-02");
  Receiver receiver = builder().build();
  const Headers none;
  EXPECT_EQ(receiver.receive({none, order_}, {.fallback_key = "own"}).key.text(), "own");
  EXPECT_EQ(receiver.receive(message_, {.fallback_key = "own"}).key.text(), "accept-42");
}

TEST_P(IdempotentReceiverTest, KeyThatIsNoneIsRefusedBeforeAnythingHappens) {
  RecordProperty("requirement", "PKT-02");
  Receiver receiver = builder().key_by(&Order::id).build();
  const Order order{.id = std::string(kMaxIdempotencyKeyCodePoints + 1, 'k')};
  expect_error(ErrorCode::invalid_argument, [&] { receiver.receive({headers_, order}); });
  EXPECT_EQ(handled_, 0);
}

TEST_P(IdempotentReceiverTest, PrefixKeepsReceiversApart) {
  RecordProperty("requirement", "PKT-02");
  Receiver billing = builder().key_prefix("billing:").build();
  Receiver shipping = builder().key_prefix("shipping:").build();
  EXPECT_EQ(billing.receive(message_).status, ReceiveStatus::processed);
  const Received<std::string> other = shipping.receive(message_);
  EXPECT_EQ(other.status, ReceiveStatus::processed);
  EXPECT_EQ(other.key.text(), "accept-42");
  EXPECT_EQ(billing.receive(message_).status, ReceiveStatus::duplicate);
  EXPECT_EQ(status("billing:accept-42"), KeyStatus::processed);
}

TEST_P(IdempotentReceiverTest, SendersThatAreKnownDoNotShareTheKeysInTheirHeaders) {
  RecordProperty("requirement", "PKT-02");
  const ReceiveOptions from_shop{.header_scope = "/key/shop/"};
  const ReceiveOptions from_web{.header_scope = "/key/web/"};
  Receiver receiver = builder().build();
  EXPECT_EQ(receiver.receive(message_, from_shop).status, ReceiveStatus::processed);
  EXPECT_EQ(receiver.receive(message_, from_web).status, ReceiveStatus::processed);
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::processed);
  const Received<std::string> again = receiver.receive(message_, from_shop);
  EXPECT_EQ(again.status, ReceiveStatus::duplicate);
  EXPECT_EQ(again.key.text(), "accept-42");
  EXPECT_EQ(status("/key/shop/accept-42"), KeyStatus::processed);
  const Headers request{{"requestId", "r-1"}};
  Receiver by_header = builder().key_by_header("requestId").build();
  EXPECT_EQ(by_header.receive({request, order_}, from_shop).status, ReceiveStatus::processed);
  EXPECT_EQ(by_header.receive({request, order_}, from_web).status, ReceiveStatus::processed);
  Receiver by_payload = builder().key_by(&Order::id).build();
  EXPECT_EQ(by_payload.receive(message_, from_shop).status, ReceiveStatus::processed);
  EXPECT_EQ(by_payload.receive(message_, from_web).status, ReceiveStatus::duplicate);
}

TEST_P(IdempotentReceiverTest, KeyWithoutScopeIsNeverOneWithAScope) {
  RecordProperty("requirement", "PKT-02");
  Receiver receiver = builder().build();
  const Headers forged{{"idempotencyKey", "/key/shop/accept-42"}};
  EXPECT_EQ(receiver.receive({forged, order_}).status, ReceiveStatus::processed);
  EXPECT_EQ(receiver.receive({forged, order_}).status, ReceiveStatus::duplicate);
  EXPECT_EQ(receiver.receive(message_, {.header_scope = "/key/shop/"}).status,
            ReceiveStatus::processed);
  EXPECT_EQ(status("//key/shop/accept-42"), KeyStatus::processed);
}

TEST_P(IdempotentReceiverTest, KeyThatIsTooLongWithWhatStandsBeforeItIsStoredAsItsDigest) {
  RecordProperty("requirement", "PKT-02");
  Receiver receiver = builder().key_prefix("orders:").build();
  std::string text;
  for (std::size_t i = 0; i < kMaxIdempotencyKeyCodePoints; ++i) text += "\u00e9";
  const Headers one{{"idempotencyKey", text}};
  const Headers other{{"idempotencyKey", text.substr(2) + "e"}};
  const ReceiveOptions from_shop{.header_scope = "/key/shop/"};
  EXPECT_EQ(receiver.receive({one, order_}, from_shop).status, ReceiveStatus::processed);
  EXPECT_EQ(receiver.receive({one, order_}, from_shop).status, ReceiveStatus::duplicate);
  EXPECT_EQ(receiver.receive({one, order_}).status, ReceiveStatus::processed);
  EXPECT_EQ(receiver.receive({other, order_}).status, ReceiveStatus::processed);
  EXPECT_EQ(status("orders:/sha256/" + to_hex(sha256("/key/shop/" + text))), KeyStatus::processed);
  const Headers too_long{{"idempotencyKey", text + "e"}};
  expect_error(ErrorCode::invalid_argument,
               [&] { receiver.receive({too_long, order_}, from_shop); });
}

TEST_P(IdempotentReceiverTest, FailureIsRecordedAndThrownOnAndTheKeyCanBeClaimedAgain) {
  RecordProperty("requirement", "PKT-05");
  std::vector<int> attempts;
  Receiver receiver = builder([&](const Order&, ReceiveContext& context) -> std::string {
                        EXPECT_EQ(context.key(), "accept-42");
                        attempts.push_back(context.attempt());
                        if (attempts.size() == 1) throw std::runtime_error("the card was declined");
                        return "receipt";
                      }).build();
  EXPECT_THROW(receiver.receive(message_), std::runtime_error);
  EXPECT_EQ(status("accept-42"), KeyStatus::failed);
  EXPECT_EQ(record("accept-42").value().error, "the card was declined");
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::processed);
  EXPECT_THAT(attempts, ::testing::ElementsAre(1, 2));
}

TEST_P(IdempotentReceiverTest, FailedKeyCanBeSuppressed) {
  RecordProperty("requirement", "PKT-01,PKT-05");
  Receiver receiver =
      builder([](const Order&) -> std::string { throw std::runtime_error("declined"); })
          .on_failed(FailedKeyPolicy::suppress)
          .build();
  EXPECT_THROW(receiver.receive(message_), std::runtime_error);
  const Received<std::string> again = receiver.receive(message_);
  EXPECT_EQ(again.status, ReceiveStatus::duplicate);
  EXPECT_EQ(again.original, OriginalState::failed);
  EXPECT_EQ(again.error, "declined");
  EXPECT_FALSE(again.done());
}

TEST_P(IdempotentReceiverTest, ExceptionsOfAnyTypeAreRecorded) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver = builder([](const Order& order) -> std::string {
                        if (order.amount == 0) throw std::runtime_error("");
                        throw order.amount;
                      }).build();
  EXPECT_THROW(receiver.receive(message_), int);
  EXPECT_EQ(record("accept-42").value().error, "an exception that is not a std::exception");
  const Order nothing{.amount = 0};
  EXPECT_THROW(receiver.receive({headers_, nothing}), std::runtime_error);
  EXPECT_EQ(record("accept-42").value().error, "std::runtime_error");
}

TEST_P(IdempotentReceiverTest, HandlerThatHeedsTheStopTokenReleasesItsKey) {
  RecordProperty("requirement", "PKT-05");
  std::stop_source stop;
  Receiver receiver = builder([&](const Order&, ReceiveContext& context) -> std::string {
                        stop.request_stop();
                        EXPECT_TRUE(context.stop_token().stop_requested());
                        throw std::runtime_error("stopped half-way");
                      })
                          .on_failed(FailedKeyPolicy::suppress)
                          .build();
  EXPECT_THROW(receiver.receive(message_, {.stop = stop.get_token()}), std::runtime_error);
  EXPECT_EQ(status("accept-42"), KeyStatus::released);
}

TEST_P(IdempotentReceiverTest, PermanentFailureCountsEvenWhenTheCallerStops) {
  RecordProperty("requirement", "PKT-05");
  std::stop_source stop;
  Receiver receiver = builder([&](const Order&) -> std::string {
                        stop.request_stop();
                        throw PermanentFailure("no such account");
                      }).build();
  EXPECT_THROW(receiver.receive(message_, {.stop = stop.get_token()}), PermanentFailure);
  EXPECT_EQ(status("accept-42"), KeyStatus::failed);
}

TEST_P(IdempotentReceiverTest, SuccessIsRecordedAlthoughTheCallerStops) {
  RecordProperty("requirement", "PKT-05");
  std::stop_source stop;
  Receiver receiver = builder([&](const Order&) -> std::string {
                        stop.request_stop();
                        return "receipt";
                      }).build();
  const auto answer = receiver.receive(message_, {.stop = stop.get_token()});
  EXPECT_EQ(answer.status, ReceiveStatus::processed);
  EXPECT_EQ(status("accept-42"), KeyStatus::processed);
}

constexpr VerdictTries kAtOnce{.count = 4, .first_pause = Duration{0}};

TEST_P(IdempotentReceiverTest, CompletionIsRepeatedUntilTheStoreTakesIt) {
  RecordProperty("requirement", "PKT-05");
  for (const testing::Fault fault : {testing::Fault::before, testing::Fault::after}) {
    Receiver receiver = builder().options({.verdict_tries = kAtOnce}).build();
    const Headers headers{{"idempotencyKey", std::to_string(static_cast<int>(fault))}};
    probe_.fail("complete", 3, fault);
    const Received<std::string> answer = receiver.receive({headers, order_});
    EXPECT_EQ(answer.status, ReceiveStatus::processed);
    EXPECT_FALSE(answer.lease_lost);
    EXPECT_EQ(receiver.receive({headers, order_}).status, ReceiveStatus::duplicate);
  }
  EXPECT_EQ(probe_.calls("complete"), 8);
  EXPECT_EQ(probe_.calls("fail"), 0);
}

TEST_P(IdempotentReceiverTest, SuccessThatCannotBeRecordedIsNoFailureOfTheHandler) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver = builder().options({.verdict_tries = kAtOnce}).build();
  probe_.fail("complete", 4, testing::Fault::before);
  std::optional<CompleteRequest> completion;
  try {
    receiver.receive(message_);
    ADD_FAILURE() << "expected an error";
  } catch (const UnrecordedSuccess& error) {
    EXPECT_EQ(error.code(), ErrorCode::outcome_unknown);
    EXPECT_THAT(error.what(), HasSubstr("has succeeded"));
    EXPECT_THAT(error.what(), Not(HasSubstr("receipt")));
    completion = error.completion();
  }
  EXPECT_EQ(probe_.calls("fail"), 0);
  EXPECT_EQ(status("accept-42"), KeyStatus::in_progress) << "busy until the lease ends";
  EXPECT_EQ(receiver.receive(message_).original, OriginalState::running);
  EXPECT_EQ(probe_.keys().complete(completion.value()), CompleteOutcome::processed);
  EXPECT_EQ(receiver.receive(message_).original, OriginalState::completed);
  EXPECT_EQ(handled_, 1);
}

TEST_P(IdempotentReceiverTest, SuccessThatCannotBeRecordedIsAnsweredIfWanted) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver = builder().verdict_tries(kAtOnce).build();
  probe_.fail("complete", 4, testing::Fault::before);
  const Received<std::string> answer =
      receiver.receive(message_, {.on_unrecorded = UnrecordedPolicy::answer});
  EXPECT_EQ(answer.status, ReceiveStatus::processed);
  EXPECT_EQ(answer.result, "receipt 1 for order-1");
  ASSERT_NE(answer.unrecorded, nullptr);
  EXPECT_EQ(probe_.keys().complete(answer.unrecorded->completion()), CompleteOutcome::processed);
  EXPECT_EQ(receiver.receive(message_).original, OriginalState::completed);
}

TEST_P(IdempotentReceiverTest, UnrecordedSuccessThatTheHandlerThrowsIsItsFailure) {
  RecordProperty("requirement", "PKT-05");
  Receiver inner = builder().key_prefix("inner:").verdict_tries({.count = 1}).build();
  Receiver outer = builder([&](const Envelope<Order>& message, ReceiveContext&) {
                     return inner.receive(message).result.value_or("none");
                   }).build();
  probe_.fail("complete", 1, testing::Fault::before);
  EXPECT_THROW(outer.receive(message_, {.on_unrecorded = UnrecordedPolicy::answer}),
               UnrecordedSuccess);
  EXPECT_EQ(status("accept-42"), KeyStatus::failed);
}

TEST(VerdictTries, SpanSecondsByDefault) {
  RecordProperty("requirement", "PKT-05");
  const VerdictTries tries;
  Duration in_all{0};
  Duration pause = tries.first_pause;
  for (int i = 1; i < tries.count; ++i, pause *= 4) in_all += pause;
  EXPECT_GE(in_all, 8s);
  EXPECT_LT(in_all, defaults::kKeyLease);
}

TEST_P(IdempotentReceiverTest, FailureThatCannotBeRecordedIsLoggedAndThrownOn) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver =
      builder([](const Order&) -> std::string { throw std::runtime_error("declined"); })
          .options({.verdict_tries = {.count = 1}})
          .build();
  probe_.fail("fail", 1, testing::Fault::before);
  EXPECT_THROW(receiver.receive(message_), std::runtime_error);
  EXPECT_TRUE(logger_.contains("failure of a handler could not be recorded"));
  clock_.advance(defaults::kKeyLease);
  EXPECT_THROW(receiver.receive(message_), std::runtime_error) << "the lease has lapsed";
}

TEST_P(IdempotentReceiverTest, StoreThatIsAwayBeforeTheHandlerIsAnErrorOfItsOwn) {
  RecordProperty("requirement", "PKT-05");
  Receiver receiver = builder().build();
  probe_.fail("begin", 1, testing::Fault::before);
  expect_error(ErrorCode::unavailable, [&] { receiver.receive(message_); });
  EXPECT_EQ(handled_, 0);
}

TEST_P(IdempotentReceiverTest, CrashBlocksItsKeyNoLongerThanTheLease) {
  RecordProperty("requirement", "PKT-05");
  int attempt = 0;
  Receiver receiver = builder([&](const Order&, ReceiveContext& context) {
                        attempt = context.attempt();
                        return std::string("receipt");
                      }).build();
  store_->keys().begin({.key = "accept-42", .owner = "a process that dies"});
  clock_.advance(defaults::kKeyLease - 1ms);
  EXPECT_EQ(receiver.receive(message_).original, OriginalState::running);
  clock_.advance(1ms);
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::processed);
  EXPECT_EQ(attempt, 2);
}

TEST_P(IdempotentReceiverTest, HandlerWithoutResultIsReplayedAsNothing) {
  RecordProperty("requirement", "PKT-01");
  int calls = 0;
  auto receiver =
      IdempotentReceiver<Order, std::monostate>::over(probe_.keys(), [&](const Order&) { ++calls; })
          .on_duplicate(DuplicatePolicy::replay_completed)
          .build();
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::processed);
  EXPECT_EQ(receiver.receive(message_).status, ReceiveStatus::replayed);
  EXPECT_EQ(calls, 1);
}

TEST_P(IdempotentReceiverTest, OptionsOutOfRangeAreRefused) {
  const auto refused = [&](const ReceiverOptions& options) {
    expect_error(ErrorCode::out_of_range, [&] { (void)builder().options(options).build(); });
  };
  refused({.lease = 999ms});
  refused({.lease = 301s});
  refused({.retention = 0ms});
  refused({.wait_at_most = -1ms});
  refused({.verdict_tries = {.count = 0}});
  refused({.key_prefix = std::string(256, 'p')});
}

TEST_P(IdempotentReceiverTest, NameStandsInItsLogLines) {
  Receiver receiver = builder().name("payments").verdict_tries({.count = 1}).build();
  probe_.fail("complete", 1, testing::Fault::before);
  EXPECT_THROW(receiver.receive(message_), UnrecordedSuccess);
  EXPECT_TRUE(logger_.contains("payments")) << logger_.all();
}

TEST(IdempotentReceiverCost, DuplicateIsRecognisedInMemoryWithoutAllocation) {
  RecordProperty("requirement", "PKT-03");
  memory::MemoryStore store;
  auto receiver = IdempotentReceiver<Order, std::string>::over(store.keys(), [](const Order&) {
                    return std::string("receipt");
                  }).build();
  const Order order;
  const Headers headers{{"idempotencyKey", "8e03978e-40d5-43e8-bc93-6894a57f9324"}};
  receiver.receive({headers, order});
  const std::size_t before = allocations_of_this_thread();
  const Received<std::string> again = receiver.receive({headers, order});
  EXPECT_EQ(allocations_of_this_thread() - before, 0U);
  EXPECT_EQ(again.status, ReceiveStatus::duplicate);
  EXPECT_EQ(again.key.text().size(), 36U);
}

}  // namespace
}  // namespace oncebox
