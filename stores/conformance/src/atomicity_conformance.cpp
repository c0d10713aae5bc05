// A call is one transaction: IBX-102. Each call is made to fail at its first internal step, then at
// its second, and so on; after every failure everything is as before, and once it gets through, the
// space behaves like one in which nothing ever failed.

#include <fmt/format.h>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

namespace {

using Call = std::function<void()>;

/// Everything that can be seen of a store.
struct StoreDump {
  QueueDump inbox;
  QueueDump outbox;
  std::vector<std::optional<KeyRecord>> keys;
};

}  // namespace

class AtomicityConformance : public StoreConformance {
 protected:
  /// A space in which every call finds something of every kind to do.
  void prepare() {
    use_fresh_space();
    enqueue_ids({"held1", "held2", "held3", "held4"});
    claim(4);
    enqueue(message("held4", {.payload = "newer"}));
    put(Situation::dead, message("dead of p", {.partition = "p"}));
    put(Situation::seen, "dead without content");
    queue().mark({.key = key("dead without content"), .as = MarkAs::dead});
    put_every_situation();
    enqueue(message("p1", {.partition = "p"}));
    enqueue(message("p2", {.partition = "p"}));
    enqueue(message("expired", {.expires_at = now()}));
    store().outbox().enqueue(message("out"));
    prepare_keys();
  }

  void prepare_keys() {
    held_.clear();
    for (const char* key : {"held1", "held2", "held3"}) {
      held_.push_back(keys().begin({.key = key, .lease = 300s}).lease_id.value());
    }
    keys().begin({.key = "lapsed", .lease = 1s});
    const LeaseId released = keys().begin({.key = "released"}).lease_id.value();
    keys().release({.key = "released", .lease_id = released});
    const LeaseId failed = keys().begin({.key = "failed"}).lease_id.value();
    keys().fail({.key = "failed", .lease_id = failed, .error = "boom"});
    keys().complete({.key = "processed", .result = "result"});
    keys().complete({.key = "forgotten1", .retention = 1s});
    keys().complete({.key = "forgotten2", .retention = 1s});
    advance(1s);
  }

  static std::vector<IdempotencyKey> watched_keys() {
    return {"held1",     "held2",      "held3",      "lapsed", "released", "failed",
            "processed", "forgotten1", "forgotten2", "new1",   "new2"};
  }

  StoreDump everything() {
    return {dump_of(store().inbox_operator()), dump_of(store().outbox_operator()),
            keys().find(watched_keys())};
  }

  void expect_unchanged(const StoreDump& before) {
    const StoreDump after = everything();
    EXPECT_TRUE(unchanged(before.inbox, after.inbox));
    EXPECT_TRUE(unchanged(before.outbox, after.outbox));
    EXPECT_EQ(after.keys, before.keys);
  }

  Delivery held(std::string_view id) const { return {.key = key(id), .owner = alice}; }

  /// What the space still does, in words: revives, waits, and hands everything out in order. It
  /// shows what a dump cannot, for example a queue that forgot that a message is ready.
  std::vector<std::string> aftermath() {
    std::vector<std::string> lines;
    enqueue(message("late-p", {.partition = "p"}));
    enqueue(message("late-q", {.partition = "q"}));
    queue_operator().revive_matching({}, {}, 1'000);
    advance(48h);
    constexpr int kMaxRounds = 100;
    for (int round = 0; round < kMaxRounds; ++round) {
      const std::vector<ClaimedMessage> claimed = claim({.owner = bob, .limit = 2});
      for (const ClaimedMessage& one : claimed) {
        lines.push_back(fmt::format("{} {} {} attempt {} deliveries {}",
                                    one.message.key.message_id.str(), one.message.topic.str(),
                                    one.message.payload.bytes(), one.history.attempt,
                                    one.history.deliveries));
        settle(one);
      }
      if (claimed.empty()) break;
    }
    for (const MessageRecord& one : queue_operator().list({}).records) {
      lines.push_back(fmt::format("{} {} duplicates {} version {}", one.key.message_id.str(),
                                  oncebox::to_string(one.status), one.history.duplicates,
                                  one.history.content_version));
    }
    for (const IdempotencyKey& key : watched_keys()) {
      const BeginOutcome outcome = keys().begin({.key = key});
      lines.push_back(
          fmt::format("{} {} {}", key.str(), to_string(outcome.status), outcome.attempts));
    }
    return lines;
  }

  /// `make_call` is asked for the call after the space is prepared, so that its arguments are there
  /// before the failures begin.
  void expect_all_or_nothing(const std::function<Call()>& make_call) {
    prepare();
    make_call()();
    const std::vector<std::string> undisturbed = aftermath();

    prepare();
    const Call call = make_call();
    const StoreDump before = everything();
    int failures = 0;
    constexpr int kMaxSteps = 100'000;
    while (failures < kMaxSteps && harness().run_with_failure(failures, call)) {
      SCOPED_TRACE("after it failed at step " + std::to_string(failures));
      expect_unchanged(before);
      if (HasFailure()) return;
      ++failures;
    }
    EXPECT_LT(failures, kMaxSteps);
    EXPECT_EQ(aftermath(), undisturbed);
    expect_failures_leave_no_trace(make_call, failures);
  }

  /// After a failure the space does what it would have done without the call. Each step has a space
  /// of its own, because a later success could heal what a failure broke.
  void expect_failures_leave_no_trace(const std::function<Call()>& make_call, int steps) {
    prepare();
    (void)make_call();  // it may move the clock
    const std::vector<std::string> untouched = aftermath();
    for (int step = 0; step < steps && !HasFailure(); ++step) {
      SCOPED_TRACE("after it failed at step " + std::to_string(step));
      prepare();
      const Call call = make_call();
      // A fresh space may have fewer steps than one in which the call has failed before.
      if (!harness().run_with_failure(step, call)) break;
      EXPECT_EQ(aftermath(), untouched);
    }
  }

  std::vector<LeaseId> held_;
};

INSTANTIATE_TEST_SUITE_P(Stores, AtomicityConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(AtomicityConformance, HarnessReallyMakesCallsFail) {
  proves("IBX-102");
  const Message one = message("a");
  const Call call = [&] { queue().enqueue(one); };
  EXPECT_TRUE(harness().run_with_failure(0, call));
  EXPECT_FALSE(is_stored("a"));
  EXPECT_FALSE(harness().run_with_failure(1'000'000, call));
  EXPECT_TRUE(is_stored("a"));
}

TEST_P(AtomicityConformance, FailedEnqueueChangesNothing) {
  proves("IBX-102", "IBX-013");
  expect_all_or_nothing([this]() -> Call {
    const std::vector<Message> batch{
        message("new1", {.topic = "brand.new", .headers = {{"a", "b"}}, .partition = "p"}),
        message("seen", {.hash = hash_of("seen")}),
        message("marked_processing", {.partition = "q"}),
        message("ready", {.topic = "order.changed", .payload = "newer"}),
        message("waiting"),
        message("leased", {.payload = "newer"}),
        message("done"),
        message("dead", {.payload = "newer"}),
        message("dead without content"),
        message("new2")};
    return [this, batch] { queue().enqueue(batch); };
  });
}

TEST_P(AtomicityConformance, FailedEnqueueWithPoliciesChangesNothing) {
  proves("IBX-102", "R-18", "R-05");
  expect_all_or_nothing([this]() -> Call {
    const ContentHash other = hash_of("other");
    const std::vector<Message> batch{message("new1"),
                                     message("done", {.payload = "x", .hash = other}),
                                     message("lapsed", {.payload = "x", .hash = other}),
                                     message("dead of p", {.payload = "newer", .partition = "p"}),
                                     message("dead without content", {.partition = "q"})};
    const EnqueueOptions options{.on_hash_mismatch = HashMismatchPolicy::quarantine,
                                 .on_dead = DeadPolicy::revive};
    return [this, batch, options] { queue().enqueue(batch, options); };
  });
}

TEST_P(AtomicityConformance, FailedObserveChangesNothing) {
  proves("IBX-102", "IBX-002");
  expect_all_or_nothing([this]() -> Call {
    const std::vector<Observation> batch{{.key = key("new1"), .hash = hash_of("new")},
                                         {.key = key("seen"), .hash = hash_of("seen")},
                                         {.key = key("done")},
                                         {.key = key("new2")}};
    return [this, batch] { queue().observe(batch); };
  });
}

TEST_P(AtomicityConformance, FailedMarkChangesNothing) {
  proves("IBX-102", "R-03");
  expect_all_or_nothing([this]() -> Call {
    const std::vector<Mark> batch{{.key = key("held1"), .as = MarkAs::processing},
                                  {.key = key("ready"), .as = MarkAs::dead, .error = "given up"},
                                  {.key = key("seen"), .as = MarkAs::processing},
                                  {.key = key("p1"), .as = MarkAs::processed},
                                  {.key = key("dead"), .as = MarkAs::processed},
                                  {.key = key("leased"), .as = MarkAs::dead, .error = "given up"}};
    return [this, batch] { queue().mark(batch); };
  });
}

TEST_P(AtomicityConformance, FailedClaimChangesNothing) {
  proves("IBX-102", "IBX-030", "IBX-103");
  expect_all_or_nothing(
      [this]() -> Call { return [this] { (void)queue().claim({.owner = bob}); }; });
}

// A claim reaps a long backlog in steps of a thousand, each in a transaction of its own.
TEST_P(AtomicityConformance, WhatAClaimBuriedBeforeItFailedIsTold) {
  proves("R-33", "IBX-102");
  const auto prepare_backlog = [this] {
    use_fresh_space();
    std::vector<Message> backlog;
    for (int i = 0; i < 1'001; ++i) {
      backlog.push_back(message("late" + std::to_string(i), {.expires_at = now() + 1s}));
    }
    queue().enqueue(backlog);
    enqueue(message("in time"));
    advance(1s);
  };
  std::size_t told = 0;
  const Call call = [&] {
    const ClaimResult claimed = queue().claim({.owner = bob});
    told = claimed.reaped.buried;
    // Answered, although something failed.
    if (claimed.empty()) throw Error(ErrorCode::unavailable, "the message in time is missing");
  };
  /// Fails at one step after the other and answers the first at which the call does not.
  const auto fail_from = [&](int step, int stride) {
    prepare_backlog();
    for (;; step += stride) {
      SCOPED_TRACE("after it failed at step " + std::to_string(step));
      told = 0;
      const bool failed = harness().run_with_failure(step, call);
      EXPECT_EQ(queue_operator().stats().total().dead, told);
      if (!failed || HasFailure()) return step;
      if (told > 0) prepare_backlog();
    }
  };
  constexpr int kStride = 101;  // in memory there are thousands of steps
  const int beyond = fail_from(0, kStride);
  if (!HasFailure()) fail_from(std::max(0, beyond - 2 * kStride), 1);
}

TEST_P(AtomicityConformance, FailedClaimOfAPrefixChangesNothing) {
  proves("IBX-102", "IBX-030", "R-10");
  expect_all_or_nothing([this]() -> Call {
    const ClaimRequest request{
        .owner = bob, .limit = 2, .topics = {.only = {"order.*"}, .except = {"order.changed"}}};
    set_policy("*", {.max_deliveries = 1});
    return [this, request] { (void)queue().claim(request); };
  });
}

TEST_P(AtomicityConformance, FailedSettleChangesNothing) {
  proves("IBX-102", "IBX-044", "IBX-050", "IBX-060");
  expect_all_or_nothing([this]() -> Call {
    const std::string error(3'000, 'x');
    const std::vector<Settlement> batch{
        {.delivery = held("held1"), .verdict = Ack{}},
        {.delivery = held("held2"), .verdict = Abandon{.error = error, .delay = 1s}},
        {.delivery = held("held3"), .verdict = Fail{.error = error}},
        {.delivery = held("held4"), .verdict = Ack{}},
        {.delivery = held("leased"), .verdict = Release{}},
        {.delivery = held("lapsed"), .verdict = Abandon{}}};
    return [this, batch] { queue().settle(batch); };
  });
}

TEST_P(AtomicityConformance, FailedExtendChangesNothing) {
  proves("IBX-102");
  expect_all_or_nothing([this]() -> Call {
    const std::vector<LeaseExtension> batch{{.delivery = held("held1"), .lease = 1h},
                                            {.delivery = held("lapsed"), .lease = 1h},
                                            {.delivery = held("held2"), .lease = 2h}};
    return [this, batch] { queue().extend(batch); };
  });
}

TEST_P(AtomicityConformance, FailedReapChangesNothing) {
  proves("IBX-102", "IBX-069", "R-10");
  expect_all_or_nothing([this]() -> Call {
    set_policy("*", {.max_deliveries = 1});
    advance(defaults::kLease);
    return [this] { queue().reap(); };
  });
}

TEST_P(AtomicityConformance, FailedReviveChangesNothing) {
  proves("IBX-102", "R-24");
  expect_all_or_nothing([this]() -> Call {
    const std::vector<MessageKey> batch{key("dead"), key("dead of p"), key("done"),
                                        key("dead without content"), key("nobody")};
    const ReviveOptions options{.delay = 1s, .reason = std::string(3'000, 'x')};
    return [this, batch, options] { queue_operator().revive(batch, options); };
  });
}

TEST_P(AtomicityConformance, FailedRevivalWithOtherPayloadsChangesNothing) {
  proves("IBX-102", "R-24");
  expect_all_or_nothing([this]() -> Call {
    const std::vector<EditedMessage> batch{{key("dead"), std::string(3'000, 'x')},
                                           {key("dead of p"), "other"},
                                           {key("done"), "other"},
                                           {key("dead without content"), "other"},
                                           {key("nobody"), "other"}};
    const ReviveOptions options{
        .delay = 1s, .reason = std::string(3'000, 'x'), .actor = std::string(3'000, 'a')};
    return [this, batch, options] {
      EXPECT_TRUE(queue_operator().past_contents(key("dead")).empty());
      queue_operator().revive_edited(batch, options);
    };
  });
}

TEST_P(AtomicityConformance, FailedRevivalOfAllMatchingChangesNothing) {
  proves("IBX-102", "R-24", "R-30");
  expect_all_or_nothing([this]() -> Call {
    const MessageFilter filter{.source = "stripe"};
    const ReviveOptions options{.reason = "all of them, for a reason too long for a small string"};
    return [this, filter, options] { queue_operator().revive_matching(filter, options, 10); };
  });
}

TEST_P(AtomicityConformance, FailedCancellationChangesNothing) {
  proves("IBX-102", "R-30", "R-32");
  expect_all_or_nothing([this]() -> Call {
    const std::vector<MessageKey> keys{key("held1"), key("ready"), key("held1"), key("waiting"),
                                       key("nobody")};
    return [this, keys] { queue_operator().act(keys, Cancel{}, {.reason = "by mistake"}); };
  });
}

TEST_P(AtomicityConformance, FailedPurgeChangesNothing) {
  proves("IBX-102", "R-30");
  expect_all_or_nothing([this]() -> Call {
    const std::vector<MessageKey> batch{key("dead"), key("done"), key("dead of p")};
    return [this, batch] { queue_operator().purge(batch); };
  });
  expect_all_or_nothing([this]() -> Call {
    const MessageFilter filter{.source = "stripe"};
    return [this, filter] { queue_operator().purge_matching(filter, 2); };
  });
}

TEST_P(AtomicityConformance, FailedCleanupChangesNothing) {
  proves("IBX-102", "IBX-101", "R-22");
  expect_all_or_nothing([this]() -> Call {
    const CleanupRequest request{.done_retention = 0ms, .dead_retention = 0ms, .limit = 3};
    return [this, request] { queue_operator().cleanup(request); };
  });
}

TEST_P(AtomicityConformance, FailedLookChangesNothing) {
  proves("IBX-102", "R-30");
  expect_all_or_nothing([this]() -> Call { return [this] { (void)queue_operator().stats(); }; });
  expect_all_or_nothing([this]() -> Call {
    return [this] { (void)queue_operator().list({.payloads = ListPayloads::include}); };
  });
  expect_all_or_nothing([this]() -> Call {
    const std::vector<MessageKey> batch{key("ready"), key("dead"), key("nobody")};
    return [this, batch] { (void)queue().find(batch); };
  });
}

TEST_P(AtomicityConformance, FailedBeginChangesNothing) {
  proves("IBX-102", "KIN-03", "PKT-06");
  expect_all_or_nothing([this]() -> Call {
    const std::string owner = "an owner too long for a small string";
    const std::vector<BeginRequest> batch{
        {.key = "new1", .owner = owner},       {.key = "lapsed", .owner = owner},
        {.key = "held1", .owner = owner},      {.key = "released", .owner = owner},
        {.key = "processed", .owner = owner},  {.key = "failed", .owner = owner},
        {.key = "forgotten1", .owner = owner}, {.key = "new2", .owner = owner}};
    return [this, batch] { keys().begin(batch); };
  });
}

TEST_P(AtomicityConformance, FailedCompleteChangesNothing) {
  proves("IBX-102", "KIN-04", "PKT-06");
  expect_all_or_nothing([this]() -> Call {
    const std::string result(1'000, 'x');
    const std::vector<CompleteRequest> batch{
        {.key = "held1", .lease_id = held_[0], .result = result},
        {.key = "held2", .lease_id = held_[1]},
        {.key = "new1", .result = result},
        {.key = "failed", .result = result},
        {.key = "forgotten1", .result = result},
        {.key = "released"}};
    return [this, batch] { keys().complete(batch); };
  });
}

TEST_P(AtomicityConformance, FailedFailReleaseAndExtendOfKeysChangeNothing) {
  proves("IBX-102", "KIN-05", "PKT-05", "PKT-06");
  expect_all_or_nothing([this]() -> Call {
    const std::string error(3'000, 'x');
    const std::vector<FailRequest> batch{{.key = "held1", .lease_id = held_[0], .error = error},
                                         {.key = "held2", .lease_id = held_[1], .error = error}};
    return [this, batch] { keys().fail(batch); };
  });
  expect_all_or_nothing([this]() -> Call {
    const std::vector<ReleaseRequest> batch{{.key = "held1", .lease_id = held_[0]},
                                            {.key = "held2", .lease_id = held_[1]}};
    return [this, batch] { keys().release(batch); };
  });
  expect_all_or_nothing([this]() -> Call {
    const std::vector<KeyExtension> batch{{.key = "held1", .lease_id = held_[0], .lease = 300s},
                                          {.key = "held2", .lease_id = held_[1], .lease = 300s}};
    return [this, batch] { keys().extend(batch); };
  });
}

TEST_P(AtomicityConformance, FailedCleanupOfKeysChangesNothing) {
  proves("IBX-102", "KIN-09");
  expect_all_or_nothing([this]() -> Call { return [this] { keys().cleanup(10); }; });
}

}  // namespace oncebox::conformance
