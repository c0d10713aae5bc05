#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/testing/fake_clock.hpp"

/// Messages in every state, for the tests of migrations: brought there by one version of a store,
/// and worked on with another.
namespace oncebox::conformance {

/// What a version kept of attempts and workers.
enum class PastAttempts { forgotten, kept };

/// A queue with messages in every state. Each is named after its state, and so is its topic.
class EveryState {
 public:
  /// All are borrowed.
  EveryState(QueueStore& queue, QueueOperator& operations, testing::FakeClock& clock)
      : queue_(queue), operations_(operations), clock_(clock) {}

  /// Brings the messages there, and answers the delivery that is still held.
  Delivery put() {
    using namespace std::chrono_literals;
    queue_.observe({.key = key("seen")});
    queue_.observe({.key = key("marked")});
    queue_.mark({.key = key("marked"), .as = MarkAs::processing});
    enqueue({"done", "dead", "edited", "lapsed", "leased", "backoff", "retried", "ready"});
    // Some that came and were claimed together, and of which one is done.
    std::vector<Message> together;
    for (const char* id : {"run1", "run2", "run3"}) together.push_back(of_topic(id, "run"));
    queue_.enqueue(together);
    settle(claim("run", 5min, 2).front(), Ack{});
    queue_.enqueue(of_topic("waiting", "waiting", {.due_at = clock_.now() + 1h}));
    queue_.enqueue(of_topic("expiring", "expiring", {.expires_at = clock_.now() + 1h}));
    queue_.enqueue(of_topic("first", "partition", {.priority = 5, .partition = "p"}));
    queue_.enqueue(of_topic("second", "partition", {.priority = 5, .partition = "p"}));

    settle(claim("done").front(), Ack{});
    settle(claim("dead").front(), Fail{.error = "no such order"});
    settle(claim("edited").front(), Fail{.error = "unreadable"});
    operations_.revive_edited(std::vector{EditedMessage{key("edited"), "readable"}},
                              {.reason = "mended"});
    settle(claim("retried").front(), Abandon{.error = "boom", .delay = 1s});
    clock_.advance(1s);
    settle(claim("retried").front(), Ack{});
    settle(claim("backoff").front(), Abandon{.error = "busy", .delay = 10min});
    const ClaimedMessage leased = claim("leased", 5min).front();
    enqueue({"leased"});
    (void)claim("lapsed", 1s);
    clock_.advance(1s);  // and nobody notices yet
    return delivery_of(leased);
  }

  /// The messages, with their attempts and who has leased them since when if the version kept that.
  [[nodiscard]] QueueDump dump(PastAttempts attempts) {
    QueueDump dump = dump_of(operations_);
    for (MessageRecord& record : dump.records) {
      if (attempts == PastAttempts::kept) {
        record.attempts = queue_.find(record.key).value().attempts;
      } else if (record.lease) {
        record.lease->leased_at.reset();
        record.lease->worker.reset();
      }
    }
    return dump;
  }

  /// Works with them: whatever could be done with them before can be done now.
  void expect_workable(const Delivery& held, PastAttempts attempts) {
    using namespace std::chrono_literals;
    const bool kept = attempts == PastAttempts::kept;
    const MessageLease lease = find("leased").lease.value();
    EXPECT_EQ(lease.worker.has_value(), kept);
    EXPECT_EQ(find("retried").attempts.size(), kept ? 2U : 0U);
    EXPECT_EQ(operations_.past_contents(key("edited")).size(), 1U);

    EXPECT_EQ(queue_.settle({held, Abandon{.error = "later", .delay = 1s}}), SettleStatus::settled);
    const Attempt ended{.number = 1,
                        .worker = lease.worker,
                        .begun_at = lease.leased_at,
                        .ended_at = clock_.now(),
                        .outcome = AttemptOutcome::abandoned,
                        .error = "later"};
    EXPECT_EQ(find("leased").attempts, std::vector{ended});

    EXPECT_EQ(operations_.revive(std::vector{key("dead")}), std::vector{ReviveOutcome::revived});
    queue_.enqueue(of_topic("marked", "marked"));
    EXPECT_EQ(work(), (std::set<std::string>{"dead", "edited", "first", "lapsed", "marked", "ready",
                                             "run3", "expiring"}));
    EXPECT_EQ(find("lapsed").attempts.size(), 2U) << "one lapsed before, one succeeded";
    clock_.advance(1h);
    EXPECT_EQ(work(), (std::set<std::string>{"backoff", "leased", "run2", "second", "waiting"}));
    EXPECT_EQ(operations_.count({.statuses = {Status::done}}), 16U);
    clock_.advance(1h);
    EXPECT_EQ(operations_.cleanup({.done_retention = 1h}).done_removed, 16U);
    EXPECT_EQ(operations_.count({}), 1U) << "the one that was only seen";
  }

 private:
  static Message of_topic(const std::string& id, std::string topic, MessageParts parts = {}) {
    parts.topic = std::move(topic);
    return message(id, parts);
  }

  void enqueue(const std::vector<std::string>& ids) {
    for (const std::string& id : ids) queue_.enqueue(of_topic(id, id));
  }

  std::vector<ClaimedMessage> claim(const std::string& topic,
                                    Duration lease = std::chrono::minutes{1},
                                    std::size_t limit = 1) {
    return queue_.claim({.owner = OwnerToken::generate(),
                         .lease = lease,
                         .limit = limit,
                         .topics = {.only = {TopicPattern(Topic(topic))}}});
  }

  void settle(const ClaimedMessage& claimed, const Verdict& verdict) {
    EXPECT_EQ(queue_.settle({delivery_of(claimed), verdict}), SettleStatus::settled);
  }

  [[nodiscard]] MessageRecord find(const std::string& id) { return queue_.find(key(id)).value(); }

  /// Handles what can be claimed now, and answers what it was.
  std::set<std::string> work() {
    std::set<std::string> handled;
    for (const ClaimedMessage& claimed : queue_.claim({.owner = OwnerToken::generate()})) {
      handled.insert(claimed.message.key.message_id.str());
      settle(claimed, Ack{});
    }
    return handled;
  }

  QueueStore& queue_;
  QueueOperator& operations_;
  testing::FakeClock& clock_;
};

}  // namespace oncebox::conformance
