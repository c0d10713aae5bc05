#include "exercise.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "messages.hpp"

namespace oncebox::postgresql {

namespace {

using namespace std::chrono_literals;

Message message_about(const std::string& id) {
  Message one = message(id);
  one.payload = "payload of " + id;
  return one;
}

Message of_partition(const std::string& id) {
  Message one = message_about(id);
  one.partition_key = "customer 1";
  return one;
}

Message with_hash(const std::string& id, const std::string& payload) {
  Message one = message_about(id);
  one.payload = payload;
  one.hash = ContentHash::sha256_of(payload);
  return one;
}

void enqueue_every_kind(QueueStore& queue, testing::FakeClock& clock) {
  EXPECT_EQ(queue.enqueue(message_about("acked")).status, EnqueueStatus::accepted);
  EXPECT_EQ(queue.enqueue(message_about("acked")).status, EnqueueStatus::duplicate);
  Message urgent = message_about("abandoned");
  urgent.priority = Priority(5);
  Message expiring = message_about("expired");
  expiring.expires_at = clock.now() + 1s;
  expiring.due_at = clock.now() + 1h;
  const auto batch = queue.enqueue(std::vector{
      urgent, message_about("failed"), message_about("released"), message_about("lapsed"), expiring,
      of_partition("first"), of_partition("second"), with_hash("hashed", "one")});
  for (const EnqueueOutcome& outcome : batch) EXPECT_EQ(outcome.status, EnqueueStatus::accepted);
  EXPECT_EQ(
      queue
          .enqueue(with_hash("hashed", "two"), {.on_hash_mismatch = HashMismatchPolicy::quarantine})
          .status,
      EnqueueStatus::quarantined);
  EXPECT_EQ(queue.observe({.key = key("observed")}).state, ObservedState::unseen);
  EXPECT_EQ(queue.observe({.key = key("acked")}).state, ObservedState::ready);
  EXPECT_EQ(queue.mark({.key = key("observed"), .as = MarkAs::dead}), MarkOutcome::marked);
  EXPECT_EQ(queue.mark({.key = key("hashed"), .as = MarkAs::processed}), MarkOutcome::marked);
}

void work(QueueStore& queue, testing::FakeClock& clock) {
  const OwnerToken owner = OwnerToken::generate();
  const std::vector<ClaimedMessage> claimed = queue.claim({.owner = owner, .lease = 30s});
  ASSERT_EQ(claimed.size(), 6U);
  EXPECT_EQ(claimed.front().message.key, key("abandoned"));
  std::vector<Settlement> settlements;
  for (const ClaimedMessage& one : claimed) {
    const std::string& id = one.message.key.message_id.str();
    EXPECT_EQ(one.message.payload.bytes(), "payload of " + id);
    if (id == "acked" || id == "first") settlements.push_back({delivery_of(one), Ack{}});
    if (id == "abandoned") settlements.push_back({delivery_of(one), Abandon{"later", 1s}});
    if (id == "failed") settlements.push_back({delivery_of(one), Fail{"no route"}});
    if (id == "released") settlements.push_back({delivery_of(one), Release{}});
    if (id == "lapsed") {
      EXPECT_TRUE(queue.extend({.delivery = delivery_of(one), .lease = 40s}).locked_until);
    }
  }
  for (const SettleOutcome& outcome : queue.settle(settlements)) {
    EXPECT_EQ(outcome, SettleStatus::settled);
  }
  EXPECT_EQ(queue.settle(settlements.front()), SettleStatus::lease_lost);

  clock.advance(41s);
  EXPECT_EQ(queue.claim({.owner = owner, .limit = 1, .topics = {.only = {"order.*"}}}).size(), 1U);
  EXPECT_EQ(queue.claim({.owner = owner}).size(), 3U) << "released, lapsed, second";
  const auto next_due = queue.next_due({});
  ASSERT_TRUE(next_due);
  EXPECT_EQ(*next_due, clock.now() + 30s);
  clock.advance(30s);
  EXPECT_EQ(queue.reap({}).total(), 4U);
}

void operate(QueueStore& queue, QueueOperator& messages, testing::FakeClock& clock) {
  const auto found = queue.find(std::vector{key("acked"), key("failed"), key("nobody")});
  EXPECT_EQ(found.at(0).value().status, Status::done);
  EXPECT_EQ(found.at(1).value().status, Status::dead);
  EXPECT_FALSE(found.at(2));
  EXPECT_EQ(messages.list({.limit = 4}).records.size(), 4U);
  EXPECT_EQ(messages.count({.statuses = {Status::done}}), 3U) << "acked, first, hashed";
  EXPECT_EQ(messages.count({.statuses = {Status::dead}}), 4U)
      << "failed, observed, expired, quarantined";
  EXPECT_EQ(messages.stats().total().ready, 4U);
  const std::vector<EditedMessage> edits{{.key = key("failed"), .payload = "mended"}};
  EXPECT_EQ(messages.revive_edited(edits).front(), ReviveOutcome::revived);
  EXPECT_EQ(messages.past_contents(key("failed")).size(), 1U);
  EXPECT_EQ(queue.mark({.key = key("failed"), .as = MarkAs::dead}), MarkOutcome::marked);
  EXPECT_EQ(messages.revive(std::vector{key("failed")}).front(), ReviveOutcome::revived);
  EXPECT_EQ(messages.revive_matching({.error_contains = "expired"}, {}, 10), 1U);
  EXPECT_EQ(messages.purge(std::vector{key("observed")}).front(), PurgeOutcome::purged);
  EXPECT_EQ(messages.purge_matching({}, 10), 1U);
  EXPECT_EQ(queue.enqueue(message_about("acked")).status, EnqueueStatus::duplicate_done);
  EXPECT_EQ(queue.mark({.key = key("failed"), .as = MarkAs::dead}), MarkOutcome::marked);
  clock.advance(1h);
  EXPECT_EQ(messages.cleanup({.done_retention = 1min, .dead_retention = 1min}).total(), 4U);
}

void use_keys(IdempotencyStore& keys, testing::FakeClock& clock) {
  const BeginOutcome begun = keys.begin({.key = "a", .owner = "me"});
  ASSERT_EQ(begun.status, BeginStatus::acquired);
  const LeaseId lease_id = begun.lease_id.value();
  EXPECT_EQ(keys.begin({.key = "a"}).status, BeginStatus::busy);
  EXPECT_TRUE(keys.extend({.key = "a", .lease_id = lease_id, .lease = 120s}).lease_until);
  EXPECT_EQ(keys.complete({.key = "a", .lease_id = lease_id, .result = "done"}),
            CompleteOutcome::processed);
  EXPECT_EQ(keys.begin({.key = "a"}).result, "done");
  const auto batch = keys.begin(std::vector<BeginRequest>{
      {.key = "a"}, {.key = "b"}, {.key = "c", .retention = 1s}, {.key = "b"}});
  EXPECT_EQ(batch.at(0).status, BeginStatus::processed);
  ASSERT_EQ(batch.at(1).status, BeginStatus::acquired);
  EXPECT_EQ(batch.at(3).status, BeginStatus::busy);
  EXPECT_EQ(keys.fail({.key = "b", .lease_id = *batch.at(1).lease_id, .error = "no route"}),
            FailOutcome::failed);
  EXPECT_EQ(keys.release({.key = "c", .lease_id = batch.at(2).lease_id.value()}),
            ReleaseOutcome::released);
  EXPECT_EQ(keys.find("b").value().error, "no route");
  clock.advance(1h);
  EXPECT_EQ(keys.cleanup(10), 1U);
  EXPECT_FALSE(keys.find("c"));
  EXPECT_TRUE(keys.is_processed("a"));
}

}  // namespace

void exercise(Store& store, testing::FakeClock& clock) {
  enqueue_every_kind(store.inbox(), clock);
  work(store.inbox(), clock);
  operate(store.inbox(), store.inbox_operator(), clock);
  enqueue_every_kind(store.outbox(), clock);
  work(store.outbox(), clock);
  operate(store.outbox(), store.outbox_operator(), clock);
  use_keys(store.keys(), clock);
  store.audit().finish(store.audit().begin({.actor = "alice"}), {.changed = 1});
  EXPECT_EQ(store.audit().list().records.size(), 1U);
  EXPECT_EQ(store.audit().cleanup({.retention = 0s}), 1U);
  const Health health = store.health();
  EXPECT_EQ(health.status, HealthStatus::healthy) << health.detail;
}

}  // namespace oncebox::postgresql
