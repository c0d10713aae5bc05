// The bodies of the work queue's calls: each as an example, written and read.
#include "oncebox/wire/queue_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "noon.hpp"

namespace oncebox {

// What goes into a call is compared here alone.
bool operator==(const Observation& a, const Observation& b) {
  return a.key == b.key && a.hash == b.hash;
}
bool operator==(const Mark& a, const Mark& b) {
  return a.key == b.key && a.as == b.as && a.error == b.error;
}
bool operator==(const Delivery& a, const Delivery& b) {
  return a.key == b.key && a.owner == b.owner && a.number == b.number;
}
bool operator==(const Ack&, const Ack&) { return true; }
bool operator==(const Release&, const Release&) { return true; }
bool operator==(const Fail& a, const Fail& b) {
  return a.error == b.error && a.untried == b.untried;
}
bool operator==(const Abandon& a, const Abandon& b) {
  return a.error == b.error && a.delay == b.delay;
}
bool operator==(const Settlement& a, const Settlement& b) {
  return a.delivery == b.delivery && a.verdict == b.verdict;
}
bool operator==(const LeaseExtension& a, const LeaseExtension& b) {
  return a.delivery == b.delivery && a.lease == b.lease;
}
bool operator==(const TopicSelection& a, const TopicSelection& b) {
  return a.only == b.only && a.except == b.except;
}
bool operator==(const ClaimRequest& a, const ClaimRequest& b) {
  return a.owner == b.owner && a.lease == b.lease && a.limit == b.limit &&
         a.max_bytes == b.max_bytes && a.topics == b.topics;
}

namespace wire {
namespace {

using namespace std::chrono_literals;

const OwnerToken kOwner = OwnerToken::parse("0190a0b0-0000-7000-8000-000000000001");
const MessageKey kA{"shop", "a"};
const MessageKey kB{"shop", "b"};

TEST(EnqueueJson, OneOutcomeCarriesItsKey) {
  EXPECT_EQ(write_enqueued(kA, {}), R"({"source":"shop","messageId":"a","status":"Accepted"})");
  EXPECT_EQ(write_enqueued(kA, {.status = EnqueueStatus::quarantined,
                                .hash_mismatch = true,
                                .quarantined_as = MessageId("a-q"),
                                .newly_dead = true}),
            R"({"source":"shop","messageId":"a","status":"Quarantined","hashMismatch":true,)"
            R"("quarantinedAs":"a-q","newlyDead":true})");
}

TEST(EnqueueJson, EveryOutcomeOfABatchIsReadBack) {
  std::vector<Message> messages;
  std::vector<EnqueueOutcome> outcomes;
  for (int status = 0; status <= static_cast<int>(EnqueueStatus::quarantined); ++status) {
    messages.push_back({.key = {"shop", std::to_string(status)}, .topic = "t"});
    outcomes.push_back({.status = static_cast<EnqueueStatus>(status),
                        .hash_mismatch = status % 2 == 1,
                        .quarantined_as = {}});
  }
  outcomes.back().quarantined_as = MessageId("q");
  outcomes.back().newly_dead = true;
  const std::string json = write_enqueued(messages, outcomes);
  EXPECT_TRUE(json.starts_with(
      R"({"results":[{"source":"shop","messageId":"0","status":"Accepted"},{"source":"shop",)"))
      << json;
  EXPECT_EQ(read_enqueued(json), outcomes);
}

TEST(ObserveJson, IsWrittenAndRead) {
  const std::vector<Observation> items = {{.key = kA},
                                          {.key = kB, .hash = ContentHash("md5", "\xab")}};
  const std::string json = R"({"items":[{"source":"shop","messageId":"a"},)"
                           R"({"source":"shop","messageId":"b","hash":"md5:ab"}]})";
  EXPECT_EQ(write_observations(items), json);
  EXPECT_EQ(read_observations(json), items);

  std::vector<ObserveOutcome> outcomes;
  for (int state = 0; state <= static_cast<int>(ObservedState::dead); ++state) {
    outcomes.push_back({static_cast<ObservedState>(state), state == 1});
  }
  EXPECT_EQ(write_observed(outcomes),
            R"({"results":[{"state":"Unseen"},{"state":"Seen","hashMismatch":true},)"
            R"({"state":"Waiting"},{"state":"Ready"},{"state":"Leased"},)"
            R"({"state":"Done"},{"state":"Dead"}]})");
  EXPECT_EQ(read_observed(write_observed(outcomes)), outcomes);
}

TEST(MarkJson, IsWrittenAndRead) {
  const std::vector<Mark> marks = {{.key = kA, .as = MarkAs::processed},
                                   {.key = kB, .as = MarkAs::dead, .error = "gone"},
                                   {.key = kB, .as = MarkAs::processing}};
  const std::string json = R"({"items":[{"source":"shop","messageId":"a","as":"Processed"},)"
                           R"({"source":"shop","messageId":"b","as":"Dead","error":"gone"},)"
                           R"({"source":"shop","messageId":"b","as":"Processing"}]})";
  EXPECT_EQ(write_marks(marks), json);
  EXPECT_EQ(read_marks(json), marks);

  const std::vector<MarkOutcome> outcomes = {MarkOutcome::marked, MarkOutcome::already,
                                             MarkOutcome::unknown, MarkOutcome::refused};
  EXPECT_EQ(write_marked(outcomes), R"({"results":["Marked","Already","Unknown","Refused"]})");
  EXPECT_EQ(read_marked(write_marked(outcomes)), outcomes);
}

TEST(FindJson, AKeyThatIsNotKnownIsNull) {
  const std::vector<MessageKey> keys = {kA, kB};
  const std::string json =
      R"({"keys":[{"source":"shop","messageId":"a"},{"source":"shop","messageId":"b"}]})";
  EXPECT_EQ(write_find({.keys = keys}), json);
  EXPECT_EQ(read_find(json).keys, keys);
  EXPECT_EQ(read_find(json).options.payloads, ListPayloads::include);
  EXPECT_EQ(read_find(json).options.max_bytes, limits::kMaxClaimBytes);

  const std::vector<std::optional<MessageRecord>> records = {
      std::nullopt,
      MessageRecord{.key = kB, .history = {.first_seen_at = kNoon, .last_seen_at = kNoon}}};
  const std::string found = write_found({.records = records});
  EXPECT_TRUE(found.starts_with(R"({"results":[null,{"source":"shop","messageId":"b",)")) << found;
  EXPECT_EQ(read_found(found).records, records);
  EXPECT_FALSE(read_found(found).truncated);
}

TEST(FindJson, AnAnswerMayBeLimitedAndSaysThatItIsShort) {
  const std::string json =
      R"({"keys":[{"source":"shop","messageId":"a"}],"payloads":false,"maxBytes":1000})";
  const FindCall call = read_find(json);
  EXPECT_EQ(call.options.payloads, ListPayloads::omit);
  EXPECT_EQ(call.options.max_bytes, 1'000U);
  EXPECT_EQ(write_find(call), json);

  const std::string found = R"({"results":[null],"truncated":true})";
  EXPECT_TRUE(read_found(found).truncated);
  EXPECT_EQ(write_found(read_found(found)), found);
}

TEST(ClaimJson, EverythingCanBeLeftOut) {
  const ClaimCall call = read_claim("{}");
  EXPECT_EQ(call.request, ClaimRequest{.owner = call.request.owner});
  EXPECT_EQ(call.wait, 0ms);
  EXPECT_NE(read_claim("").request.owner, call.request.owner) << "each claim has its own owner";
}

TEST(ClaimJson, IsWrittenAndRead) {
  const ClaimCall call{.request = {.owner = kOwner,
                                   .lease = 1500ms,
                                   .limit = 7,
                                   .max_bytes = 1000,
                                   .topics = {.only = {"order.*", Topic("star*"), "order.paid"},
                                              .except = {"order.test"}}},
                       .wait = 20s};
  const std::string json =
      R"({"owner":"0190a0b0-0000-7000-8000-000000000001","leaseSeconds":1.5,"limit":7,)"
      R"("maxBytes":1000,"topics":{"only":["order.*",{"exact":"star*"},)"
      R"("order.paid"],"except":["order.test"]},"waitSeconds":20})";
  EXPECT_EQ(write_claim(call), json);
  const ClaimCall again = read_claim(json);
  EXPECT_EQ(again.request, call.request);
  EXPECT_EQ(again.wait, call.wait);
}

TEST(ClaimJson, TheWaitHasALimit) {
  EXPECT_EQ(read_claim(R"({"waitSeconds": 60})").wait, ClaimCall::kMaxWait);
  EXPECT_EQ(
      expect_error(ErrorCode::out_of_range, [] { (void)read_claim(R"({"waitSeconds": 60.001})"); }),
      "waitSeconds: the wait is 60001 ms; it must be from 0 to 60000 ms");
}

TEST(ClaimJson, ClaimedMessagesShareTheirOwner) {
  const std::vector<ClaimedMessage> claimed = {
      {.message = {.key = kA, .topic = "t", .payload = "p"},
       .history =
           {.deliveries = 1, .content_version = 1, .first_seen_at = kNoon, .last_seen_at = kNoon},
       .owner = kOwner,
       .delivery = DeliveryNumber{7},
       .locked_until = kNoon + 30s,
       .eligible_at = kNoon}};
  const std::string json =
      R"({"owner":"0190a0b0-0000-7000-8000-000000000001","messages":[{"source":"shop",)"
      R"("messageId":"a","topic":"t","payload":"p","priority":0,"attempt":0,"deliveries":1,)"
      R"("lapses":0,"duplicates":0,"contentVersion":1,"firstSeen":"2026-01-31T12:00:00.000Z",)"
      R"("lastSeen":"2026-01-31T12:00:00.000Z","delivery":7,)"
      R"("lockedUntil":"2026-01-31T12:00:30.000Z","eligibleAt":"2026-01-31T12:00:00.000Z"}]})";
  EXPECT_EQ(write_claimed(kOwner, {claimed}), json);
  EXPECT_EQ(read_claimed(json).messages, claimed);
  EXPECT_TRUE(read_claimed(write_claimed(kOwner, {})).empty());
}

TEST(ClaimJson, AClaimedMessageTellsWhereItsAttemptsEnd) {
  ClaimedMessage claimed{
      .message = {.key = kA, .topic = "t"}, .owner = kOwner, .attempt_limit = AttemptLimit{20}};
  const std::string by_number = write_claimed(kOwner, {{claimed}});
  EXPECT_THAT(by_number, testing::HasSubstr(R"(,"maxAttempts":20}])"));
  EXPECT_EQ(read_claimed(by_number).at(0), claimed);
  claimed.attempt_limit->give_up_after = 72h;
  const std::string by_age = write_claimed(kOwner, {{claimed}});
  EXPECT_THAT(by_age, testing::HasSubstr(R"(,"maxAttempts":20,"giveUpAfterSeconds":259200}])"));
  EXPECT_EQ(read_claimed(by_age).at(0), claimed);
}

TEST(SettleJson, EveryVerdictIsWrittenAndRead) {
  const std::vector<Settlement> items = {
      {{kA, kOwner, DeliveryNumber{7}}, Ack{}},
      {{kA, kOwner, {}}, Abandon{}},
      {{kB, kOwner, {}}, Abandon{.error = "later", .delay = 250ms}},
      {{kB, kOwner, {}}, Fail{.error = "never"}},
      {{kB, kOwner, {}}, Fail{.error = "too often", .untried = true}},
      {{kB, kOwner, {}}, Release{}},
  };
  const std::string json = write_settlements(items);
  EXPECT_TRUE(json.starts_with(R"({"items":[{"source":"shop","messageId":"a",)"
                               R"("owner":"0190a0b0-0000-7000-8000-000000000001",)"
                               R"("delivery":7,"verdict":"Ack"},)"))
      << json;
  EXPECT_NE(json.find(R"("verdict":"Abandon","error":"later","delaySeconds":0.25})"),
            std::string::npos)
      << json;
  EXPECT_EQ(read_settlements(json), items);

  const TimePoint time = parse_rfc3339("2026-01-02T03:04:05.678Z");
  const std::vector<SettleOutcome> outcomes = {{},
                                               {SettleStatus::superseded, time},
                                               {SettleStatus::lease_lost},
                                               {.death = SettledDeath::attempts},
                                               {.death = SettledDeath::failed}};
  EXPECT_EQ(write_settled(outcomes),
            R"({"results":[{"status":"Settled"},)"
            R"({"status":"Superseded","againAt":"2026-01-02T03:04:05.678Z"},)"
            R"({"status":"LeaseLost"},)"
            R"({"status":"Settled","death":"Attempts"},{"status":"Settled","death":"Failed"}]})");
  EXPECT_EQ(read_settled(write_settled(outcomes)), outcomes);
}

TEST(SettleJson, AnOwnerBesideTheItemsHoldsForThoseWithoutOne) {
  const OwnerToken other = OwnerToken::generate();
  const std::vector<Settlement> items =
      read_settlements(R"({"owner": ")" + kOwner.to_string() + R"(", "items": [
        {"source": "shop", "messageId": "a", "verdict": "Ack"},
        {"source": "shop", "messageId": "b", "verdict": "Ack", "owner": ")" +
                       other.to_string() + "\"}]}");
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0].delivery.owner, kOwner);
  EXPECT_EQ(items[1].delivery.owner, other);
}

TEST(SettleJson, ErrorTextsAreMendedAndCutAsTheStoresDo) {
  const std::string bad = "a\xff" + std::string(3000, 'x');
  const std::vector<Settlement> items =
      read_settlements(write_settlements(std::vector<Settlement>{{{kA, kOwner, {}}, Fail{bad}}}));
  EXPECT_EQ(std::get<Fail>(items[0].verdict).error, clip_text(bad, limits::kMaxErrorBytes));
}

TEST(ExtendJson, IsWrittenAndRead) {
  const std::vector<LeaseExtension> items = {{{kA, kOwner, DeliveryNumber{7}}, 90s},
                                             {{kB, kOwner, {}}, 1ms}};
  EXPECT_EQ(read_extensions(write_extensions(items)), items);
  EXPECT_EQ(read_extensions(R"({"items":[{"source":"s","messageId":"m","owner":")" +
                            kOwner.to_string() + "\"}]}")[0]
                .lease,
            defaults::kLease);

  const std::vector<ExtendOutcome> outcomes = {{kNoon}, {}};
  EXPECT_EQ(write_extended(outcomes),
            R"({"results":[{"status":"Extended","lockedUntil":"2026-01-31T12:00:00.000Z"},)"
            R"({"status":"LeaseLost"}]})");
  EXPECT_EQ(read_extended(write_extended(outcomes)), outcomes);
}

TEST(ReapJson, IsWrittenAndRead) {
  EXPECT_EQ(write_reap({.limit = 5}), R"({"limit":5})");
  const ReapRequest request = read_reap(R"({"limit":5})");
  EXPECT_EQ(request.limit, 5U);
  EXPECT_EQ(read_reap("{}").limit, ReapRequest{}.limit);

  const ReapResult result{
      .released = 1, .buried = 2, .deaths = {{kA, Topic("t"), "expired"}, {kB, Topic("u"), "x"}}};
  const std::string written = write_reaped(result);
  EXPECT_THAT(written, testing::StartsWith(R"({"released":1,"buried":2,"deaths":[{"source":)"));
  EXPECT_EQ(read_reaped(written), result);
  EXPECT_EQ(read_claimed(write_claimed(kOwner, {.reaped = result})).reaped, result);
}

TEST(NextDueJson, IsWrittenAndRead) {
  const TopicSelection topics{.only = {"a.*", Topic("b*")}, .except = {"a.b"}};
  EXPECT_EQ(write_topics(topics), R"({"topics":{"only":["a.*",{"exact":"b*"}],"except":["a.b"]}})");
  EXPECT_EQ(read_topics(write_topics(topics)), topics);
  EXPECT_EQ(read_topics(write_topics({})), TopicSelection{});
  EXPECT_EQ(read_topics("{}"), TopicSelection{});

  EXPECT_EQ(write_next_due(kNoon), R"({"dueAt":"2026-01-31T12:00:00.000Z"})");
  EXPECT_EQ(read_next_due(write_next_due(kNoon)), kNoon);
  EXPECT_EQ(write_next_due({}), R"({"dueAt":null})");
  EXPECT_EQ(read_next_due(write_next_due({})), std::nullopt);
}

}  // namespace
}  // namespace wire
}  // namespace oncebox
