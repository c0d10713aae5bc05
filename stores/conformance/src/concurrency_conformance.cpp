// Many threads, and two handles, at once: section 6.13. No test here waits for time to pass; the
// clock is moved, and every loop ends, at the latest when nothing has happened for long.

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

namespace {

constexpr int kThreads = 16;

/// How long those who claim go on in vain: never reached unless something is broken.
constexpr auto kPatience = 60s;

/// Runs `work(0)` to `work(threads - 1)` at once and waits for all; what one throws fails the test.
template <class Work>
void in_threads(int threads, Work work) {
  std::atomic<bool> go = false;
  std::vector<std::jthread> running;
  running.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&go, &work, i] {
      go.wait(false);
      try {
        work(i);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << i << " ended with: " << error.what();
      }
    });
  }
  go = true;
  go.notify_all();
}

/// A database may answer a deadlock with a retryable error (IBX-104); then the caller repeats.
template <class Call>
auto repeating(Call call) {
  constexpr int kMaxRepetitions = 100;
  for (int i = 0; i < kMaxRepetitions; ++i) {
    try {
      return call();
    } catch (const Error& error) {
      if (!error.retryable()) throw;
    }
  }
  return call();
}

std::vector<Message> numbered(int count, const MessageParts& parts = {}) {
  std::vector<Message> messages;
  messages.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) messages.push_back(message("m" + std::to_string(i), parts));
  return messages;
}

/// Moves time on whenever a worker has finished a round, and lets nobody begin the next round
/// before time has moved: so leases end while others are being taken, however the threads are
/// scheduled.
class Rounds {
 public:
  explicit Rounds(int workers) : working_(workers) {}

  void finish_round() {
    const int before = ticks_;
    report();
    ticks_.wait(before);
  }

  /// Says goodbye, also when the worker fails.
  struct Worker {
    Rounds& rounds;
    ~Worker() {
      --rounds.working_;
      rounds.report();
    }
  };

  template <class Advance>
  void keep_time(Advance advance) {
    for (int seen = 0; working_ > 0;) {
      reports_.wait(seen);
      seen = reports_;
      advance();
      ++ticks_;
      ticks_.notify_all();
    }
  }

 private:
  void report() {
    ++reports_;
    reports_.notify_all();
  }

  std::atomic<int> working_;
  std::atomic<int> reports_ = 0;
  std::atomic<int> ticks_ = 0;
};

/// Who held what, and when, as the workers were told.
class Ledger {
 public:
  struct Holding {
    TimePoint from;
    TimePoint until;
    bool settled = false;
    bool acknowledged = false;
  };
  using Holdings = std::map<DeliveryNumber, Holding>;

  void note_claim(const ClaimedMessage& claimed, Duration lease) {
    const std::lock_guard lock(mutex_);
    const Holding holding{claimed.locked_until - lease, claimed.locked_until};
    const bool is_new =
        holdings_[claimed.message.key.message_id.str()].emplace(claimed.delivery, holding).second;
    EXPECT_TRUE(is_new) << "one delivery number was given twice";
  }

  void note_settlement(const ClaimedMessage& claimed, const Verdict& verdict) {
    const std::lock_guard lock(mutex_);
    Holding& holding = holdings_.at(claimed.message.key.message_id.str()).at(claimed.delivery);
    holding.settled = true;
    holding.acknowledged = std::holds_alternative<Ack>(verdict);
  }

  [[nodiscard]] const Holdings& of(const std::string& id) { return holdings_[id]; }

 private:
  std::mutex mutex_;
  std::map<std::string, Holdings> holdings_;
};

/// A holding that was not settled must have ended before the next began.
void expect_one_holder_at_a_time(const std::string& id, const Ledger::Holdings& holdings) {
  const Ledger::Holding* previous = nullptr;
  for (const auto& [number, next] : holdings) {
    if (previous != nullptr) {
      EXPECT_FALSE(previous->acknowledged) << id << " was handed out after it was done";
      EXPECT_TRUE(previous->settled || next.from >= previous->until)
          << id << " was handed out while somebody held it";
    }
    previous = &next;
  }
}

}  // namespace

class ConcurrencyConformance : public StoreConformance {
 protected:
  /// Half of the threads work through one handle, half through another.
  Store& handle_of(int thread) { return thread % 2 == 0 ? store() : *other_; }

  /// A worker that settles half of what it claims, and lets the other half lapse.
  void work_and_die_often(int thread, Rounds& rounds, Ledger& ledger) {
    constexpr int kRounds = 30;
    constexpr Duration kLease = 5s;
    const Rounds::Worker present{rounds};
    const OwnerToken owner = OwnerToken::generate();
    QueueStore& queue = queue_of(handle_of(thread));
    const ClaimRequest request{.owner = owner, .lease = kLease, .limit = 8};
    for (int round = 0; round < kRounds; ++round) {
      const auto claimed = repeating([&] { return queue.claim(request); });
      for (const ClaimedMessage& one : claimed) ledger.note_claim(one, kLease);
      for (std::size_t i = 0; i < claimed.size(); ++i) {
        const std::size_t choice = (static_cast<std::size_t>(thread + round) + i) % 6;
        if (choice < 3) continue;
        const Verdict verdict = choice == 3   ? Verdict(Ack{})
                                : choice == 4 ? Verdict(Abandon{.delay = 1ms})
                                              : Verdict(Release{});
        const Settlement settlement{.delivery = delivery_of(claimed[i]), .verdict = verdict};
        const SettleOutcome outcome = repeating([&] { return queue.settle(settlement); });
        if (outcome == SettleStatus::settled) ledger.note_settlement(claimed[i], verdict);
      }
      rounds.finish_round();
    }
  }

  std::shared_ptr<Store> other_ = open();
};

INSTANTIATE_TEST_SUITE_P(Stores, ConcurrencyConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(ConcurrencyConformance, ThreadsClaimDisjointSetsWhileLeasesExpire) {
  proves("IBX-030", "IBX-103", "IBX-105", "IBX-106", "R-15", "R-16", "R-23");
  constexpr int kMessages = 300;
  set_policy("*", {.max_deliveries = limits::kMaxDeliveries});
  queue().enqueue(numbered(kMessages));
  Ledger ledger;
  Rounds rounds(kThreads);
  in_threads(kThreads + 1, [&](int thread) {
    if (thread == kThreads) {
      rounds.keep_time([&] { advance(1s); });
    } else {
      work_and_die_often(thread, rounds, ledger);
    }
  });

  int lapses = 0;
  for (const Message& one : numbered(kMessages)) {
    const std::string id = one.key.message_id.str();
    const Ledger::Holdings& holdings = ledger.of(id);
    expect_one_holder_at_a_time(id, holdings);
    const MessageHistory history = record(id).history;
    EXPECT_EQ(static_cast<std::size_t>(history.deliveries), holdings.size()) << id;
    lapses += history.lapses;
  }
  EXPECT_GT(lapses, 0) << "no lease expired: the test did not show what it should";
}

TEST_P(ConcurrencyConformance, OfManyEnqueuesOfOneKeyOneIsAccepted) {
  proves("IBX-006", "IBX-014", "IBX-105");
  constexpr int kKeys = 20;
  std::atomic<int> accepted = 0;
  std::atomic<int> duplicates = 0;
  in_threads(kThreads, [&](int thread) {
    QueueStore& queue = queue_of(handle_of(thread));
    for (const Message& one : numbered(kKeys)) {
      const EnqueueStatus status = repeating([&] { return queue.enqueue(one); }).status;
      if (status == EnqueueStatus::accepted) ++accepted;
      if (status == EnqueueStatus::duplicate) ++duplicates;
    }
  });
  EXPECT_EQ(accepted, kKeys);
  EXPECT_EQ(duplicates, (kThreads - 1) * kKeys);
  EXPECT_EQ(record("m0").history.duplicates, kThreads - 1);
  EXPECT_EQ(claim_ids().size(), std::size_t{kKeys});
}

TEST_P(ConcurrencyConformance, OfManyObservationsOfOneKeyOneIsTheFirst) {
  proves("IBX-002", "IBX-004", "IBX-006");
  constexpr int kKeys = 50;
  std::atomic<int> unseen = 0;
  in_threads(kThreads, [&](int thread) {
    QueueStore& queue = queue_of(handle_of(thread));
    for (int i = 0; i < kKeys; ++i) {
      const Observation observation{.key = key("m" + std::to_string(i))};
      const ObserveOutcome outcome = repeating([&] { return queue.observe(observation); });
      if (outcome.state == ObservedState::unseen) ++unseen;
    }
  });
  EXPECT_EQ(unseen, kKeys);
}

TEST_P(ConcurrencyConformance, OfManySettlementsOfOneDeliveryOneTakesEffect) {
  proves("IBX-045", "IBX-102", "R-14");
  queue().enqueue(numbered(20));
  const std::vector<ClaimedMessage> claimed = claim();
  std::atomic<int> settled = 0;
  in_threads(kThreads, [&](int thread) {
    QueueStore& queue = queue_of(handle_of(thread));
    for (const ClaimedMessage& one : claimed) {
      const Settlement abandon{.delivery = delivery_of(one), .verdict = Abandon{.delay = 1s}};
      const SettleOutcome outcome = repeating([&] { return queue.settle(abandon); });
      if (outcome == SettleStatus::settled) ++settled;
    }
  });
  EXPECT_EQ(settled, 20);
  for (const ClaimedMessage& one : claimed) {
    EXPECT_EQ(record(one.message.key.message_id.str()).history.attempt, 1);
  }
}

TEST_P(ConcurrencyConformance, PartitionsKeepTheirOrderUnderManyWorkers) {
  proves("R-29", "IBX-105", "IBX-106");
  constexpr int kPartitions = 5;
  constexpr int kPerPartition = 20;
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  for (int n = 0; n < kPerPartition; ++n) {
    for (int p = 0; p < kPartitions; ++p) {
      const std::string partition = "p" + std::to_string(p);
      enqueue(message(partition + "." + std::to_string(n), {.partition = PartitionKey(partition)}));
    }
  }
  std::mutex mutex;
  std::set<std::string> in_flight;
  std::map<std::string, std::vector<std::string>> handled;
  std::atomic<int> remaining = kPartitions * kPerPartition;
  in_threads(8, [&](int thread) {
    const OwnerToken owner = OwnerToken::generate();
    QueueStore& queue = queue_of(handle_of(thread));
    while (remaining > 0 && std::chrono::steady_clock::now() < give_up) {
      const auto claimed = repeating([&] { return queue.claim({.owner = owner, .limit = 2}); });
      for (const ClaimedMessage& one : claimed) {
        const std::string partition = one.message.partition_key.value().str();
        {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(in_flight.insert(partition).second) << "two of " << partition << " at once";
          handled[partition].push_back(one.message.key.message_id.str());
        }
        std::this_thread::yield();
        {
          const std::lock_guard lock(mutex);
          in_flight.erase(partition);
        }
        repeating([&] { return queue.settle({.delivery = delivery_of(one)}); });
        --remaining;
      }
      if (claimed.empty()) std::this_thread::yield();
    }
  });
  for (int p = 0; p < kPartitions; ++p) {
    const std::string partition = "p" + std::to_string(p);
    std::vector<std::string> expected;
    expected.reserve(kPerPartition);
    for (int n = 0; n < kPerPartition; ++n) expected.push_back(partition + "." + std::to_string(n));
    EXPECT_EQ(handled[partition], expected);
  }
}

TEST_P(ConcurrencyConformance, WhatProducersEnqueueConsumersHandleOnce) {
  proves("IBX-013", "IBX-047", "IBX-105", "IBX-106");
  constexpr int kProducers = 4;
  constexpr int kPerProducer = 100;
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  std::atomic<int> remaining = kProducers * kPerProducer;
  std::mutex mutex;
  std::map<std::string, int> handled;
  in_threads(2 * kProducers, [&](int thread) {
    QueueStore& queue = queue_of(handle_of(thread / 2));
    if (thread < kProducers) {
      for (int i = 0; i < kPerProducer; ++i) {
        const Message one = message(std::to_string(thread) + "." + std::to_string(i));
        repeating([&] { return queue.enqueue(one); });
      }
      return;
    }
    const OwnerToken owner = OwnerToken::generate();
    while (remaining > 0 && std::chrono::steady_clock::now() < give_up) {
      const auto claimed = repeating([&] { return queue.claim({.owner = owner, .limit = 5}); });
      for (const ClaimedMessage& one : claimed) {
        repeating([&] { return queue.settle({.delivery = delivery_of(one)}); });
        const std::lock_guard lock(mutex);
        ++handled[one.message.key.message_id.str()];
        --remaining;
      }
      if (claimed.empty()) std::this_thread::yield();
    }
  });
  EXPECT_EQ(handled.size(), std::size_t{kProducers * kPerProducer});
  for (const auto& [id, times] : handled) EXPECT_EQ(times, 1) << id;
  EXPECT_EQ(queue_operator().stats().total().done, std::size_t{kProducers * kPerProducer});
}

TEST_P(ConcurrencyConformance, EveryLookSeesEachMessageOnceWhileTheyMove) {
  proves("IBX-103", "R-30");
  constexpr int kMessages = 60;
  queue().enqueue(numbered(kMessages));
  std::atomic<bool> moving = true;
  in_threads(5, [&](int thread) {
    QueueStore& queue = queue_of(handle_of(thread));
    if (thread == 4) {
      constexpr int kMaxLooks = 10'000;
      for (int i = 0; i < kMaxLooks && moving; ++i) {
        const TopicStats sum = repeating([&] { return queue_operator().stats(); }).total();
        EXPECT_EQ(sum.unfinished() + sum.done, std::size_t{kMessages});
        EXPECT_EQ(repeating([&] { return queue_operator().count({}); }), std::size_t{kMessages});
      }
      return;
    }
    const OwnerToken owner = OwnerToken::generate();
    for (int round = 0; round < 40; ++round) {
      const auto claimed = repeating([&] { return queue.claim({.owner = owner, .limit = 4}); });
      for (std::size_t i = 0; i < claimed.size(); ++i) {
        const Verdict verdict = i == 0 ? Verdict(Ack{}) : Verdict(Release{});
        const Settlement settlement{.delivery = delivery_of(claimed[i]), .verdict = verdict};
        repeating([&] { return queue.settle(settlement); });
      }
    }
    moving = false;
  });
}

TEST_P(ConcurrencyConformance, BatchesInOppositeOrderGetThrough) {
  proves("IBX-102");
  constexpr int kRounds = 20;
  const std::vector<Message> forwards = numbered(20);
  const std::vector<Message> backwards(forwards.rbegin(), forwards.rend());
  in_threads(8, [&](int thread) {
    QueueStore& queue = queue_of(handle_of(thread));
    const std::vector<Message>& batch = thread % 4 < 2 ? forwards : backwards;
    std::vector<Observation> observations;
    observations.reserve(batch.size());
    for (const Message& one : batch) observations.push_back({.key = one.key});
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(repeating([&] { return queue.enqueue(batch); }).size(), batch.size());
      EXPECT_EQ(repeating([&] { return queue.observe(observations); }).size(), batch.size());
    }
  });
  for (const Message& one : forwards) {
    EXPECT_EQ(record(one.key.message_id.str()).history.duplicates, 8 * kRounds - 1);
  }
}

TEST_P(ConcurrencyConformance, EachOfTheDeadIsRevivedByOneOperator) {
  proves("R-24", "IBX-105");
  constexpr int kMessages = 40;
  const std::vector<Message> messages = numbered(kMessages);
  queue().enqueue(messages);
  for (const Message& one : messages) queue().mark({.key = one.key, .as = MarkAs::dead});
  std::atomic<std::size_t> revived = 0;
  in_threads(8, [&](int thread) {
    QueueOperator& queue = operator_of(handle_of(thread));
    constexpr int kMaxCalls = kMessages;
    for (int i = 0; i < kMaxCalls; ++i) {
      revived += repeating([&] { return queue.revive_matching({}, {}, 3); });
    }
  });
  EXPECT_EQ(revived, std::size_t{kMessages});
  for (const Message& one : messages) {
    EXPECT_EQ(record(one.key.message_id.str()).revivals.count, 1);
  }
}

TEST_P(ConcurrencyConformance, OfManyWhoBeginOneKeyOneAcquiresIt) {
  proves("KIN-03", "PKT-06", "IBX-105");
  constexpr int kKeys = 50;
  std::vector<std::atomic<int>> acquired(kKeys);
  in_threads(kThreads, [&](int thread) {
    IdempotencyStore& keys = handle_of(thread).keys();
    for (std::size_t i = 0; i < kKeys; ++i) {
      const BeginRequest request{.key = "k" + std::to_string(i)};
      const BeginOutcome outcome = repeating([&] { return keys.begin(request); });
      if (outcome.status == BeginStatus::acquired) ++acquired[i];
    }
  });
  for (std::size_t i = 0; i < kKeys; ++i) EXPECT_EQ(acquired[i], 1) << "key " << i;
}

TEST_P(ConcurrencyConformance, OfManyWhoTakeOverALapsedKeyOneAcquiresIt) {
  proves("KIN-03", "PKT-05");
  constexpr int kRounds = 20;
  keys().begin({.key = "a", .lease = 1s});
  for (int round = 0; round < kRounds; ++round) {
    advance(1s);
    std::atomic<int> acquired = 0;
    in_threads(kThreads, [&](int thread) {
      IdempotencyStore& keys = handle_of(thread).keys();
      const BeginOutcome outcome = repeating([&] { return keys.begin({.key = "a", .lease = 1s}); });
      if (outcome.status == BeginStatus::acquired) ++acquired;
    });
    EXPECT_EQ(acquired, 1);
  }
  EXPECT_EQ(keys().find("a").value().attempts, 1 + kRounds);
}

TEST_P(ConcurrencyConformance, OfManyWhoCompleteOneKeyTheFirstResultStays) {
  proves("KIN-04", "PKT-06");
  in_threads(kThreads, [&](int thread) {
    IdempotencyStore& keys = handle_of(thread).keys();
    const CompleteRequest request{.key = "a", .result = "from " + std::to_string(thread)};
    EXPECT_EQ(repeating([&] { return keys.complete(request); }), CompleteOutcome::processed);
    const std::optional<std::string> now_stored = keys.find("a").value().result;
    repeating([&] { return keys.complete({.key = "a", .result = "later"}); });
    EXPECT_EQ(keys.find("a").value().result, now_stored);
  });
}

}  // namespace oncebox::conformance
