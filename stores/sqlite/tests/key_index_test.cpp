// That a key is found in whatever segment it is, through everything that can happen to segments.

#include "key_index.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "connection.hpp"
#include "faulty_disk.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "segment_filter.hpp"

namespace oncebox::sqlite {
namespace {

using namespace std::chrono_literals;

sql::StorageKey key_of(std::size_t number) {
  return sql::storage_key(MessageKey{"test", std::to_string(number)});
}

std::set<std::size_t> sets_with(const SegmentFilter& filter, const sql::StorageKey& key) {
  std::set<std::size_t> sets;
  filter.visit_sets_with(key, [&](std::size_t set) {
    sets.insert(set);
    return false;
  });
  return sets;
}

TEST(SegmentFilter, NeverLeavesOutTheSetThatHasAKeyAndSeldomNamesAnother) {
  constexpr std::size_t kSets = 130;  // more than two groups
  constexpr std::size_t kKeysPerSet = 500;
  SegmentFilter filter(kKeysPerSet);
  for (std::size_t i = 0; i < kSets * kKeysPerSet; ++i) filter.add(i % kSets, key_of(i));
  std::size_t named_in_vain = 0;
  for (std::size_t i = 0; i < kSets * kKeysPerSet; ++i) {
    const std::set<std::size_t> sets = sets_with(filter, key_of(i));
    ASSERT_TRUE(sets.contains(i % kSets)) << i;
    named_in_vain += sets.size() - 1;
  }
  const double rate = static_cast<double>(named_in_vain) / (kSets * kKeysPerSet * (kSets - 1));
  EXPECT_LT(rate, 0.003);
}

TEST(SegmentFilter, ClearedSetIsEmptyAndTheOthersAreNot) {
  SegmentFilter filter(10);
  for (std::size_t set = 0; set < 70; ++set) filter.add(set, key_of(set));
  filter.clear(3);
  filter.clear(66);
  EXPECT_FALSE(sets_with(filter, key_of(3)).contains(3));
  EXPECT_FALSE(sets_with(filter, key_of(66)).contains(66));
  for (const std::size_t set : {0U, 2U, 4U, 65U, 69U}) {
    EXPECT_TRUE(sets_with(filter, key_of(set)).contains(set)) << set;
  }
}

/// A store whose segments are full after three keys.
class KeyIndexTest : public ::testing::Test {
 protected:
  [[nodiscard]] Options options() const {
    return {.path = folder_.file("oncebox.db"), .keys_per_segment = 3, .vfs = FaultyDisk::vfs()};
  }

  static Message message(int number) {
    return {.key = {"shop", std::to_string(number)}, .topic = "order.created"};
  }

  static EnqueueStatus enqueue(SqliteStore& store, int number) {
    return store.inbox().enqueue(message(number)).status;
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(KeyIndexTest, KeysOfEverySegmentAreRecognised) {
  RecordProperty("requirement", "IBX-001,IBX-014");
  SqliteStore store(options());
  for (int i = 0; i < 50; ++i) ASSERT_EQ(enqueue(store, i), EnqueueStatus::accepted) << i;
  for (int i = 0; i < 50; ++i) ASSERT_EQ(enqueue(store, i), EnqueueStatus::duplicate) << i;
  SqliteStore reopened(options());
  for (int i = 0; i < 50; ++i) ASSERT_EQ(enqueue(reopened, i), EnqueueStatus::duplicate) << i;
  EXPECT_EQ(store.inbox_operator().count({}), 50U);
}

TEST_F(KeyIndexTest, BatchMayFillSeveralSegmentsAndRepeatItself) {
  RecordProperty("requirement", "IBX-014");
  SqliteStore store(options());
  std::vector<Message> messages;
  for (int i = 0; i < 20; ++i) messages.push_back(message(i % 10));
  const std::vector<EnqueueOutcome> outcomes = store.inbox().enqueue(messages);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(outcomes[i].status, i < 10 ? EnqueueStatus::accepted : EnqueueStatus::duplicate) << i;
  }
}

TEST_F(KeyIndexTest, SegmentsThatAnotherProcessFilledAreSeen) {
  RecordProperty("requirement", "IBX-105");
  SqliteStore one(options());
  SqliteStore other(options());
  for (int i = 0; i < 40; ++i) {
    SqliteStore& first = i % 7 < 4 ? one : other;
    SqliteStore& second = i % 7 < 4 ? other : one;
    ASSERT_EQ(enqueue(first, i), EnqueueStatus::accepted) << i;
    ASSERT_EQ(enqueue(second, i / 2), EnqueueStatus::duplicate) << i;
  }
}

TEST_F(KeyIndexTest, OtherSegmentSizeThanThatOfTheFileDoesNoHarm) {
  for (const std::size_t size : {3U, 1U, 7U, 65'536U, 2U}) {
    Options other = options();
    other.keys_per_segment = size;
    SqliteStore store(other);
    for (int i = 0; i < 30; ++i) enqueue(store, i);
    EXPECT_EQ(store.inbox_operator().count({}), 30U) << size;
  }
}

TEST_F(KeyIndexTest, FailedTransactionThatFilledASegmentLeavesItOpen) {
  RecordProperty("requirement", "IBX-001,IBX-102");
  SqliteStore store(options());
  for (int i = 0; i < 5; ++i) enqueue(store, i);
  std::vector<Message> messages;
  for (int i = 5; i < 30; ++i) messages.push_back(message(i));
  {
    const FaultyDisk disk(0, FaultyDisk::Fault::io_error);
    EXPECT_THROW(store.inbox().enqueue(messages), Error);
  }
  // Other keys than those that failed: what was read of them must not pass for what is there.
  for (int i = 100; i < 160; ++i) ASSERT_EQ(enqueue(store, i), EnqueueStatus::accepted) << i;
  for (int i = 100; i < 160; ++i) ASSERT_EQ(enqueue(store, i), EnqueueStatus::duplicate) << i;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(enqueue(store, i), EnqueueStatus::duplicate) << i;
  for (int i = 5; i < 30; ++i) ASSERT_EQ(enqueue(store, i), EnqueueStatus::accepted) << i;
}

TEST_F(KeyIndexTest, ForgottenKeysCanComeAgainAndTheOthersStayKnown) {
  RecordProperty("requirement", "IBX-098");
  SqliteStore store(options());
  SqliteStore other(options());
  for (int i = 0; i < 30; ++i) enqueue(store, i);
  for (int i = 0; i < 30; ++i) {
    if (i % 10 != 0) {
      store.inbox().mark({.key = {"shop", std::to_string(i)}, .as = MarkAs::processed});
    }
  }
  EXPECT_EQ(store.inbox_operator().cleanup({.done_retention = 0s}).done_removed, 27U);
  for (SqliteStore* handle : {&other, &store}) {
    for (int i = 0; i < 30; i += 10) ASSERT_EQ(enqueue(*handle, i), EnqueueStatus::duplicate) << i;
  }
  for (int i = 0; i < 30; ++i) {
    if (i % 10 == 0) continue;
    ASSERT_EQ(enqueue(i % 2 == 0 ? store : other, i), EnqueueStatus::accepted) << i;
  }
  for (int i = 0; i < 30; ++i) ASSERT_EQ(enqueue(store, i), EnqueueStatus::duplicate) << i;
}

TEST_F(KeyIndexTest, CleanupThatIsTakenBackForgetsNothing) {
  RecordProperty("requirement", "IBX-001,IBX-102");
  Connection connection({.path = options().path});
  {
    const SqliteStore store(options());
  }
  SqliteStore store(options());
  for (int i = 0; i < 9; ++i) enqueue(store, i);
  // The calls of the index, in a transaction of our own that does not last.
  KeyIndex index(connection, "inbox", 3);
  connection.execute("BEGIN IMMEDIATE");
  ASSERT_TRUE(index.find(sql::storage_key(message(0).key), 3));
  connection.execute("COMMIT");
  index.committed();
  connection.execute("BEGIN IMMEDIATE");
  connection.execute("DELETE FROM oncebox_inbox_message WHERE segment = 0");
  EXPECT_FALSE(index.find(sql::storage_key(message(0).key), 4)) << "gone, and its segment dropped";
  connection.execute("ROLLBACK");
  index.rolled_back();
  connection.execute("BEGIN IMMEDIATE");
  EXPECT_TRUE(index.find(sql::storage_key(message(0).key), 3));
  connection.execute("COMMIT");
}

TEST_F(KeyIndexTest, RandomMixOfTwoProcessesCleanupsAndFailuresNeverAcceptsAKnownKey) {
  RecordProperty("requirement", "IBX-001,IBX-014,IBX-105");
  std::mt19937 random(20'261'115);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  SqliteStore one(options());
  SqliteStore other(options());
  std::set<int> known;
  for (int step = 0; step < 2'000; ++step) {
    SqliteStore& store = below(2) == 0 ? one : other;
    const int number = below(200);
    if (below(50) == 0) {
      for (int i = 0; i < 200; ++i) {
        if (below(3) != 0) continue;
        if (store.inbox().mark({.key = {"shop", std::to_string(i)}, .as = MarkAs::processed}) ==
            MarkOutcome::marked) {
          known.erase(i);
        }
      }
      store.inbox_operator().cleanup({.done_retention = 0s});
      continue;
    }
    try {
      const FaultyDisk disk(below(10) == 0 ? 0 : 1'000'000, FaultyDisk::Fault::io_error);
      const EnqueueStatus status = enqueue(store, number);
      const bool is_new = known.insert(number).second;
      ASSERT_EQ(status == EnqueueStatus::accepted, is_new) << "step " << step;
    } catch (const Error& error) {
      ASSERT_TRUE(error.retryable()) << error.what();
    }
  }
}

}  // namespace
}  // namespace oncebox::sqlite
