#include "oncebox/queue_operator.hpp"

#include <gtest/gtest.h>

namespace oncebox {
namespace {

constexpr TimePoint at(int second) { return TimePoint{std::chrono::seconds{second}}; }

TEST(TimeRange, IncludesItsBeginningAndExcludesItsEnd) {
  const TimeRange range{.from = at(10), .until = at(20)};
  EXPECT_FALSE(range.contains(at(9)));
  EXPECT_TRUE(range.contains(at(10)));
  EXPECT_TRUE(range.contains(at(19)));
  EXPECT_FALSE(range.contains(at(20)));
  EXPECT_TRUE(TimeRange{}.contains(at(0)));
}

TEST(QueueStats, TheTotalAddsUpAndKeepsTheOldest) {
  const QueueStats stats{.topics = {{.topic = "a", .ready = 1, .dead = 2, .oldest_ready_at = at(5)},
                                    {.topic = "b",
                                     .ready = 10,
                                     .leased = 3,
                                     .oldest_ready_at = at(3),
                                     .oldest_dead_at = at(1)},
                                    {.seen = 4, .waiting = {.due = 1}, .done = 7}}};
  const TopicStats total = stats.total();
  EXPECT_EQ(total, (TopicStats{.seen = 4,
                               .waiting = {.due = 1},
                               .ready = 11,
                               .leased = 3,
                               .done = 7,
                               .dead = 2,
                               .oldest_ready_at = at(3),
                               .oldest_dead_at = at(1)}));
}

}  // namespace
}  // namespace oncebox
