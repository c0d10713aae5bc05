#include "audit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "story.hpp"
#include "workload.hpp"

namespace oncebox::workers {

namespace {

// For people who read a failure.
auto milliseconds(TimePoint time) { return time.time_since_epoch().count(); }

bool between(int low, int value, int high) { return low <= value && value <= high; }

// Once a key is known it is never accepted again. The first answer may only be another one when
// there was an offer before it whose outcome nobody knows.
void expect_accepted_once(const Story& story) {
  EXPECT_LE(story.accepted, 1) << "accepted again";
  if (story.answered > 0 && story.accepted == 0) {
    EXPECT_GT(story.in_doubt, 0) << "known, but never accepted";
  }
}

// What one delivery leaves to the next. Only a settlement can end a lease before its time; an
// acknowledged or failed message has no next delivery, so if it has one, the verdict did not arrive
// and the lease must have lapsed.
void expect_succession(const HeldDelivery& held, const HeldDelivery& next) {
  EXPECT_GT(next.deliveries, held.deliveries) << "delivery " << next.number;
  EXPECT_GE(next.attempt, held.attempt) << "delivery " << next.number;
  EXPECT_FALSE(held.settled_as("ack")) << "handed out again after it was done";
  EXPECT_FALSE(held.settled_as("fail")) << "handed out again after it was dead";
  const bool given_up =
      held.superseded() || held.perhaps_settled_as("abandon") || held.perhaps_settled_as("release");
  if (given_up) return;
  EXPECT_LE(milliseconds(held.locked_until), milliseconds(next.claimed_at()))
      << "delivery " << next.number << " while delivery " << held.number << " was leased";
}

// The lease that the process of the earlier handler had when the later one was claimed.
TimePoint last_lease(const Story& story, const Handling& earlier, const Handling& later) {
  TimePoint until{};
  for (const auto& [number, delivery] : story.deliveries) {
    if (delivery.run == earlier.run && number < later.delivery) {
      until = std::max(until, delivery.locked_until);
    }
  }
  return until;
}

// Two handlers of one message may only overlap when the first process stood still for so long that
// its lease lapsed, which a busy machine can do to it.
void expect_one_holder(const Story& story) {
  for (const Handling& later : story.handlings) {
    for (const Handling& earlier : story.handlings) {
      const bool overlap = earlier.begun < later.begun && later.begun < earlier.until;
      if (!overlap) continue;
      EXPECT_NE(earlier.run, later.run) << "two handlers in one process";
      const auto claim = story.deliveries.find(later.delivery);
      ASSERT_NE(claim, story.deliveries.end());
      EXPECT_LE(milliseconds(last_lease(story, earlier, later)),
                milliseconds(claim->second.claimed_at()))
          << "deliveries " << earlier.delivery << " and " << later.delivery
          << " were handled at the same time";
    }
  }
}

void expect_plausible_life(const Story& story) {
  expect_accepted_once(story);
  const HeldDelivery* before = nullptr;
  for (const auto& [number, delivery] : story.deliveries) {
    if (before != nullptr) expect_succession(*before, delivery);
    before = &delivery;
  }
  expect_one_holder(story);
}

bool buried(const MessageRecord& record) {
  return record.status == Status::dead &&
         record.history.last_error.value_or("").starts_with("lease expired");
}

// For now or for good.
Tally failures_of(const Story& story) {
  const Tally abandons = story.tally("abandon");
  const Tally fails = story.tally("fail");
  return {abandons.certain + fails.certain, abandons.possible + fails.possible};
}

// A process can die between the store's answer and the line in its ledger. So where the ledger has
// the question but not the answer, both are possible, and where it has the answer, it is so.
void expect_counts_add_up(const Story& story, const MessageRecord& record) {
  const MessageHistory& history = record.history;
  const int enqueues = history.duplicates + 1;
  EXPECT_TRUE(between(story.answered, enqueues, story.answered + story.in_doubt))
      << enqueues << " enqueues, of which " << story.answered << " were answered and "
      << story.in_doubt << " are in doubt";

  EXPECT_GE(history.deliveries, static_cast<int>(story.deliveries.size()));

  const Tally failures = failures_of(story);
  EXPECT_TRUE(between(failures.certain, history.attempt, failures.certain + failures.possible))
      << history.attempt << " attempts, " << failures.certain << " failures were recorded, "
      << failures.possible << " perhaps";

  // Every delivery ends in one way: it lapses, fails, is given back, or is the last.
  const bool has_last = record.lease.has_value() || record.status == Status::done;
  const int given_back = history.deliveries - history.lapses - history.attempt - (has_last ? 1 : 0);
  const Tally releases = story.tally("release");
  EXPECT_TRUE(between(releases.certain, given_back, releases.certain + releases.possible))
      << given_back << " of " << history.deliveries << " deliveries have no end; "
      << releases.certain << " were released, " << releases.possible << " perhaps";
}

void expect_right_end(const Story& story, const MessageRecord& record) {
  const Tally acks = story.tally("ack");
  const Tally fails = story.tally("fail");
  const Tally failures = failures_of(story);
  const Plan plan = plan_of(record.message->topic);
  const bool must_die = plan == Plan::fails || plan == Plan::fails_for_good;
  if (acks.certain > 0) {
    EXPECT_EQ(to_string(record.status), "done");
  }
  if (fails.certain > 0) {
    EXPECT_EQ(to_string(record.status), "dead");
  }
  if (record.status == Status::done) {
    EXPECT_FALSE(must_die);
    EXPECT_GT(acks.certain + acks.possible, 0) << "done, but nobody said so";
    EXPECT_TRUE(story.was_handled) << "done, but no handler had come to its end";
  }
  if (record.status != Status::dead) return;
  if (buried(record)) {
    EXPECT_GE(record.history.attempt + record.history.lapses, kMaxDeliveries);
  } else {
    EXPECT_TRUE(must_die);
    EXPECT_GT(failures.certain + failures.possible, 0) << "dead, and never failed";
  }
}

void expect_record(const Story& story, const std::optional<MessageRecord>& record, Expect expect) {
  if (!record) {
    EXPECT_EQ(story.answered, 0) << "an accepted message is lost";
    EXPECT_TRUE(story.deliveries.empty()) << "a message that was handed out is lost";
    return;
  }
  ASSERT_TRUE(record->message);
  if (!story.id.starts_with("filling")) {
    EXPECT_EQ(record->message->payload, message_of(story.id, {}).payload);
  }
  EXPECT_NE(to_string(record->status), "seen");
  if (expect == Expect::everything_ended) {
    EXPECT_NE(to_string(record->status), "processing");
  }
  expect_counts_add_up(story, *record);
  expect_right_end(story, *record);
}

// Delivery numbers are given once in a queue, and each names one claim.
void expect_unique_deliveries(const Stories& stories) {
  std::set<std::uint64_t> numbers;
  for (const auto& [id, story] : stories) {
    for (const auto& [number, delivery] : story.deliveries) {
      EXPECT_TRUE(numbers.insert(number).second) << "delivery " << number << " was given twice";
      EXPECT_EQ(delivery.claims, 1) << "delivery " << number << " was given twice";
    }
  }
}

// Messages of a partition were offered one after the other, so all deliveries of one come before
// all deliveries of the next.
void expect_partition_order(const Stories& stories) {
  std::map<std::pair<std::string, int>, const Story*> in_order;
  for (const auto& [id, story] : stories) {
    if (!id.starts_with("ordered")) continue;
    const std::size_t dash = id.rfind('-');
    in_order[{id.substr(0, dash), std::stoi(id.substr(dash + 1))}] = &story;
  }
  std::map<std::string, std::uint64_t> last_delivery;
  for (const auto& [place, story] : in_order) {
    if (story->deliveries.empty()) continue;
    std::uint64_t& last = last_delivery[place.first];
    EXPECT_GT(story->deliveries.begin()->first, last) << story->id << " came before its turn";
    last = std::max(last, story->deliveries.rbegin()->first);
  }
}

std::vector<std::optional<MessageRecord>> find_all(Store& store, const Stories& stories) {
  constexpr std::size_t kAtOnce = 1'000;
  std::vector<std::optional<MessageRecord>> records;
  std::vector<MessageKey> keys;
  const auto look = [&] {
    for (auto& record : store.inbox().find(keys)) records.push_back(std::move(record));
    keys.clear();
  };
  for (const auto& [id, story] : stories) {
    keys.push_back(key_of(id));
    if (keys.size() == kAtOnce) look();
  }
  look();
  return records;
}

// A process that is killed between a claim's answer and its lines in the ledger leaves deliveries
// that nobody wrote down: one claim of each process at most. So does each claim of which nobody
// knows whether it took effect. A claim that has got some messages and looks for more does not tell
// that it failed then; but whatever made it fail did not fail it alone.
void expect_few_unrecorded_deliveries(const std::vector<WorkerRun>& runs, int unrecorded) {
  int claims = 0;
  for (const WorkerRun& run : runs) {
    if (run.killed_at) ++claims;
    for (const Event& event : run.events) {
      if (event.kind == EventKind::unclaimed || event.kind == EventKind::refused) ++claims;
    }
  }
  EXPECT_LE(unrecorded, claims * static_cast<int>(kBatchSize));
}

}  // namespace

void audit(Store& store, const std::vector<WorkerRun>& runs, Expect expect) {
  const Stories stories = tell_stories(runs);
  const auto records = find_all(store, stories);
  std::size_t found = 0;
  int unrecorded = 0;
  auto record = records.begin();
  for (const auto& [id, story] : stories) {
    SCOPED_TRACE("message " + id);
    expect_plausible_life(story);
    expect_record(story, *record, expect);
    if (*record) {
      ++found;
      unrecorded += (*record)->history.deliveries - static_cast<int>(story.deliveries.size());
    }
    ++record;
  }
  EXPECT_EQ(store.inbox_operator().count({}), found) << "messages that nobody has offered";
  expect_few_unrecorded_deliveries(runs, unrecorded);
  expect_unique_deliveries(stories);
  expect_partition_order(stories);
}

}  // namespace oncebox::workers
