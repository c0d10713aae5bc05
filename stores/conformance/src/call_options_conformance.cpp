// Deadlines and stop tokens of calls: one that is over lets no call begin, one that is far away
// changes nothing. What ends a call that is under way depends on the store, whose own tests show
// it.

#include <stop_token>

#include "oncebox/call_options.hpp"
#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class CallOptionsConformance : public StoreConformance {
 protected:
  struct NamedCall {
    std::string name;
    std::function<void(const CallOptions&)> make;
  };

  [[nodiscard]] std::vector<NamedCall> queue_calls() {
    return {
        {"enqueue", [&](const CallOptions& c) { queue().enqueue(batch_, {}, c); }},
        {"enqueue one", [&](const CallOptions& c) { queue().enqueue(batch_.front(), {}, c); }},
        {"observe", [&](const CallOptions& c) { queue().observe(observations_, c); }},
        {"observe one", [&](const CallOptions& c) { queue().observe(observations_.front(), c); }},
        {"mark", [&](const CallOptions& c) { queue().mark(marks_, c); }},
        {"mark one", [&](const CallOptions& c) { queue().mark(marks_.front(), c); }},
        {"claim", [&](const CallOptions& c) { (void)queue().claim({.owner = bob}, c); }},
        {"settle", [&](const CallOptions& c) { queue().settle(settlements_, c); }},
        {"settle one", [&](const CallOptions& c) { queue().settle(settlements_.front(), c); }},
        {"extend", [&](const CallOptions& c) { queue().extend(extensions_, c); }},
        {"extend one", [&](const CallOptions& c) { queue().extend(extensions_.front(), c); }},
        {"reap", [&](const CallOptions& c) { queue().reap({}, c); }},
        {"next_due", [&](const CallOptions& c) { (void)queue().next_due({}, c); }},
        {"find", [&](const CallOptions& c) { (void)queue().find(every_key_, c); }},
        {"find one", [&](const CallOptions& c) { (void)queue().find(key("ready"), c); }},
        {"find some", [&](const CallOptions& c) { (void)queue().find_some(every_key_, {}, c); }},
    };
  }

  [[nodiscard]] std::vector<NamedCall> operator_calls() {
    return {
        {"list", [&](const CallOptions& c) { (void)queue_operator().list({}, c); }},
        {"count", [&](const CallOptions& c) { (void)queue_operator().count({}, c); }},
        {"stats", [&](const CallOptions& c) { (void)queue_operator().stats(c); }},
        {"workers", [&](const CallOptions& c) { (void)queue_operator().workers(c); }},
        {"past contents",
         [&](const CallOptions& c) { (void)queue_operator().past_contents(key("dead"), c); }},
        {"count actable",
         [&](const CallOptions& c) { (void)queue_operator().count_actable({}, Delete{}, c); }},
        {"find by id",
         [&](const CallOptions& c) { (void)find_by_id(queue_operator(), MessageId("dead"), c); }},
        {"revive", [&](const CallOptions& c) { queue_operator().revive(every_key_, {}, c); }},
        {"revive matching",
         [&](const CallOptions& c) { queue_operator().revive_matching({}, {}, 10, c); }},
        {"revive edited",
         [&](const CallOptions& c) { queue_operator().revive_edited(edits_, {}, c); }},
        {"act", [&](const CallOptions& c) { queue_operator().act(every_key_, Cancel{}, {}, c); }},
        {"act matching",
         [&](const CallOptions& c) { queue_operator().act_matching({}, Cancel{}, 10, {}, c); }},
        {"purge", [&](const CallOptions& c) { queue_operator().purge(every_key_, {}, c); }},
        {"purge matching",
         [&](const CallOptions& c) { queue_operator().purge_matching({}, 10, {}, c); }},
        {"cleanup",
         [&](const CallOptions& c) { queue_operator().cleanup({.done_retention = 0ms}, c); }},
    };
  }

  [[nodiscard]] std::vector<NamedCall> key_calls() {
    return {
        {"begin", [&](const CallOptions& c) { keys().begin(begins_, c); }},
        {"begin one", [&](const CallOptions& c) { keys().begin(begins_.front(), c); }},
        {"complete", [&](const CallOptions& c) { keys().complete(completions_, c); }},
        {"complete one", [&](const CallOptions& c) { keys().complete(completions_.front(), c); }},
        {"fail", [&](const CallOptions& c) { keys().fail(failures_, c); }},
        {"fail one", [&](const CallOptions& c) { keys().fail(failures_.front(), c); }},
        {"release", [&](const CallOptions& c) { keys().release(releases_, c); }},
        {"release one", [&](const CallOptions& c) { keys().release(releases_.front(), c); }},
        {"extend", [&](const CallOptions& c) { keys().extend(key_extensions_, c); }},
        {"extend one", [&](const CallOptions& c) { keys().extend(key_extensions_.front(), c); }},
        {"find", [&](const CallOptions& c) { (void)keys().find(watched_, c); }},
        {"find one", [&](const CallOptions& c) { (void)keys().find(watched_.front(), c); }},
        {"is processed", [&](const CallOptions& c) { (void)keys().is_processed("a", c); }},
        {"mark processed", [&](const CallOptions& c) { keys().mark_processed("held", c); }},
        {"cleanup", [&](const CallOptions& c) { keys().cleanup(10, c); }},
    };
  }

  [[nodiscard]] std::vector<NamedCall> policy_calls() {
    const QueueKind queue = GetParam().queue;
    const TopicPattern topics("order.*");
    return {
        {"policies",
         [=, this](const CallOptions& c) { (void)store().policies().policies(queue, c); }},
        {"update a rule",
         [=, this](const CallOptions& c) {
           store().policies().update(queue, topics, {.max_attempts = 3}, {}, c);
         }},
        {"remove a rule",
         [=, this](const CallOptions& c) { store().policies().remove(queue, topics, {}, c); }},
    };
  }

  [[nodiscard]] std::vector<NamedCall> endpoint_calls() {
    return {
        {"list endpoints",
         [&](const CallOptions& c) {
           (void)store().endpoints().list(EndpointSecrets::leave_out, c);
         }},
        {"list endpoints unless known",
         [&](const CallOptions& c) {
           (void)store().endpoints().list_unless(0, EndpointSecrets::leave_out, c);
         }},
        {"save an endpoint",
         [&](const CallOptions& c) { store().endpoints().save(endpoint_, {}, c); }},
        {"note an endpoint",
         [&](const CallOptions& c) {
           store().endpoints().note(endpoint_.name, {EndpointEvent::Kind::failed, now()}, c);
         }},
        {"remove an endpoint",
         [&](const CallOptions& c) { store().endpoints().remove(endpoint_.name, {}, c); }},
    };
  }

  [[nodiscard]] std::vector<NamedCall> audit_calls() {
    return {
        {"begin an entry",
         [&](const CallOptions& c) { (void)store().audit().begin({.actor = "ann"}, c); }},
        {"finish an entry",
         [&](const CallOptions& c) { store().audit().finish(AuditId{1}, {}, c); }},
        {"list the trail", [&](const CallOptions& c) { (void)store().audit().list({}, c); }},
        {"clean the trail up", [&](const CallOptions& c) { store().audit().cleanup({}, c); }},
    };
  }

  void prepare() {
    put_every_situation();
    const LeaseId held = keys().begin({.key = "held"}).lease_id.value();
    failures_ = {{.key = "held", .lease_id = held, .error = "no"}};
    releases_ = {{.key = "held", .lease_id = held}};
    key_extensions_ = {{.key = "held", .lease_id = held, .lease = 300s}};
    for (const Situation situation : kEverySituation) {
      every_key_.push_back(key(to_string(situation)));
    }
  }

  const Endpoint endpoint_{.name = "crm", .url = "oncebox+https://crm.example/v1"};
  std::vector<MessageKey> every_key_;
  const std::vector<Message> batch_{message("new"), message("done")};
  const std::vector<Observation> observations_{{.key = key("unseen")}, {.key = key("done")}};
  const std::vector<Mark> marks_{{.key = key("ready"), .as = MarkAs::processed}};
  const std::vector<Settlement> settlements_{
      {.delivery = {.key = key("leased"), .owner = alice}, .verdict = Ack{}}};
  const std::vector<LeaseExtension> extensions_{
      {.delivery = {.key = key("leased"), .owner = alice}, .lease = 300s}};
  const std::vector<EditedMessage> edits_{{.key = key("dead"), .payload = "other"}};
  const std::vector<IdempotencyKey> watched_{"held", "a"};
  const std::vector<BeginRequest> begins_{{.key = "a"}, {.key = "held"}};
  const std::vector<CompleteRequest> completions_{{.key = "a"}, {.key = "held"}};
  std::vector<FailRequest> failures_;
  std::vector<ReleaseRequest> releases_;
  std::vector<KeyExtension> key_extensions_;
};

INSTANTIATE_TEST_SUITE_P(Stores, CallOptionsConformance, testing::ValuesIn(on_inbox()), case_name);

struct OverLimits {
  std::string name;
  CallOptions call;
  ErrorCode code;
};

std::vector<OverLimits> limits_that_are_over() {
  std::stop_source stop;
  stop.request_stop();
  return {{"after the deadline", CallOptions::within(0ms), ErrorCode::timeout},
          {"long after the deadline", CallOptions::within(-1h), ErrorCode::timeout},
          {"after a stop", {.stop = stop.get_token()}, ErrorCode::cancelled}};
}

CallOptions far_limits(const std::stop_source& stop) {
  return CallOptions::within(1h, stop.get_token());
}

TEST_P(CallOptionsConformance, NoCallOfAQueueBeginsAfterItsLimit) {
  proves("R-36");
  prepare();
  for (const OverLimits& over : limits_that_are_over()) {
    for (const NamedCall& call : queue_calls()) {
      expect_refused(call.name + " " + over.name, over.code, [&] { call.make(over.call); });
    }
  }
}

TEST_P(CallOptionsConformance, NoCallOfAnOperatorBeginsAfterItsLimit) {
  proves("R-36");
  prepare();
  for (const OverLimits& over : limits_that_are_over()) {
    for (const NamedCall& call : operator_calls()) {
      expect_refused(call.name + " " + over.name, over.code, [&] { call.make(over.call); });
    }
  }
}

TEST_P(CallOptionsConformance, NoCallAboutKeysBeginsAfterItsLimit) {
  proves("R-36");
  prepare();
  const auto before = keys().find(watched_);
  for (const OverLimits& over : limits_that_are_over()) {
    for (const NamedCall& call : key_calls()) {
      SCOPED_TRACE(call.name + " " + over.name);
      EXPECT_EQ(error_of([&] { call.make(over.call); }), over.code);
      EXPECT_EQ(keys().find(watched_), before);
    }
  }
}

TEST_P(CallOptionsConformance, NoCallAboutRulesEndpointsOrTheTrailBeginsAfterItsLimit) {
  proves("R-36");
  for (const OverLimits& over : limits_that_are_over()) {
    for (const auto& calls : {policy_calls(), endpoint_calls(), audit_calls()}) {
      for (const NamedCall& call : calls) {
        SCOPED_TRACE(call.name + " " + over.name);
        EXPECT_EQ(error_of([&] { call.make(over.call); }), over.code);
      }
    }
  }
  EXPECT_TRUE(store().policies().policies(GetParam().queue).rules().empty());
  EXPECT_TRUE(store().endpoints().list().endpoints.empty());
  EXPECT_TRUE(store().audit().list().records.empty());
}

TEST_P(CallOptionsConformance, EveryCallCanBeMadeWithALimitThatIsFarAway) {
  proves("R-36");
  prepare();
  const std::stop_source stop;
  for (const auto& calls : {queue_calls(), operator_calls(), key_calls(), policy_calls(),
                            endpoint_calls(), audit_calls()}) {
    for (const NamedCall& call : calls) {
      SCOPED_TRACE(call.name);
      EXPECT_NO_THROW(call.make(far_limits(stop)));
    }
  }
}

TEST_P(CallOptionsConformance, ALimitThatIsFarAwayChangesNoAnswer) {
  proves("R-36");
  const std::stop_source stop;
  const CallOptions far = far_limits(stop);
  const std::vector<Message> messages{message("a"), message("b"), message("a")};
  const auto enqueued = queue().enqueue(messages, {}, far);
  ASSERT_EQ(enqueued.size(), 3U);
  EXPECT_EQ(enqueued[0].status, EnqueueStatus::accepted);
  EXPECT_EQ(enqueued[2].status, EnqueueStatus::duplicate);
  const std::vector<ClaimedMessage> claimed = queue().claim({.owner = alice}, far);
  EXPECT_EQ(ids_of(claimed), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(queue().settle({.delivery = delivery_of(claimed.front()), .verdict = Ack{}}, far),
            SettleStatus::settled);
  EXPECT_EQ(queue().find(key("a"), far)->status, Status::done);
  EXPECT_EQ(queue_operator().count({.statuses = {Status::done}}, far), 1U);
  const BeginOutcome begun = keys().begin({.key = "k"}, far);
  EXPECT_EQ(begun.status, BeginStatus::acquired);
  EXPECT_EQ(keys().complete({.key = "k", .lease_id = begun.lease_id}, far),
            CompleteOutcome::processed);
  EXPECT_TRUE(keys().is_processed("k", far));
}

TEST_P(CallOptionsConformance, BadInputIsNamedAlsoAfterTheLimit) {
  proves("R-36");
  expect_refused("a claim of none", ErrorCode::out_of_range, [&] {
    (void)queue().claim({.owner = alice, .limit = 0}, CallOptions::within(0ms));
  });
}

}  // namespace oncebox::conformance
