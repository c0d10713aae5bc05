#include "queue_lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

namespace oncebox::sqlite {

namespace {

constexpr std::int64_t kBeforeEveryRank = -1'000;
constexpr std::int64_t kAfterEveryRank = 1'000;

bool is_exact(const TopicPattern& pattern) { return pattern.is_exact(); }

bool wants_every_topic(const TopicSelection& topics) {
  const auto is_every = [](const TopicPattern& pattern) {
    return !pattern.is_exact() && pattern.stem().empty();
  };
  return topics.only.empty() || std::ranges::any_of(topics.only, is_every);
}

std::optional<LaneHead> head_from(Statement& next, std::int64_t topic, std::int64_t rank) {
  const ResetLater reset(next);
  if (!next.bind(1, topic).bind(2, rank).step()) return std::nullopt;
  return LaneHead{.topic = next.int64(0),
                  .rank = next.int64(1),
                  .eligible_at = next.int64(2),
                  .enqueue_order = next.int64(3),
                  .id = next.int64(4)};
}

// Whether a topic is wanted, by its number. Names are looked up only where it takes names to tell.
std::function<bool(std::int64_t)> wanted_numbers(TopicNames& names, const TopicSelection& topics) {
  if (!wants_every_topic(topics) || !std::ranges::all_of(topics.except, is_exact)) {
    return [&](std::int64_t topic) { return topics.matches(names.name_of(topic).str()); };
  }
  std::unordered_set<std::int64_t> refused;
  for (const TopicPattern& pattern : topics.except) {
    if (const auto number = names.find(pattern.str())) refused.insert(*number);
  }
  return [refused = std::move(refused)](std::int64_t topic) { return !refused.contains(topic); };
}

}  // namespace

// SQLite finds the place of a pair at once when it is asked for that pair or later ones. Asked for
// what is later than a pair, it would look for the pair and go through the lane that begins there.
LaneWalk::LaneWalk(Connection& connection, std::string_view queue)
    : next_lane_(connection.prepare(fmt::format(R"sql(
SELECT topic, rank, eligible_at, enqueue_order, id FROM oncebox_{}_state
 WHERE stage = 1 AND (topic, rank) >= (?1, ?2)
 ORDER BY topic, rank, eligible_at, enqueue_order LIMIT 1)sql",
                                                queue))),
      next_of_topic_(connection.prepare(fmt::format(R"sql(
SELECT topic, rank, eligible_at, enqueue_order, id FROM oncebox_{}_state
 WHERE stage = 1 AND topic = ?1 AND rank >= ?2
 ORDER BY rank, eligible_at, enqueue_order LIMIT 1)sql",
                                                    queue))) {}

/// From lane to lane.
class LaneWalk::ByExposure {
 public:
  ByExposure(Statement& next_lane, TopicNames& names, const TopicSelection& topics)
      : next_lane_(next_lane), is_wanted_(wanted_numbers(names, topics)) {}

  /// False when it has arrived.
  bool step() {
    const std::optional<LaneHead> head = head_from(next_lane_, topic_, rank_);
    if (!head) return false;
    if (head->topic != topic_) topic_is_wanted_ = is_wanted_(head->topic);
    topic_ = head->topic;
    rank_ = topic_is_wanted_ ? head->rank + 1 : kAfterEveryRank;
    if (topic_is_wanted_) heads_.push_back(*head);
    return true;
  }

  [[nodiscard]] std::vector<LaneHead> take() noexcept { return std::move(heads_); }

 private:
  Statement& next_lane_;
  const std::function<bool(std::int64_t)> is_wanted_;
  std::int64_t topic_ = 0;
  std::int64_t rank_ = kAfterEveryRank;
  bool topic_is_wanted_ = false;
  std::vector<LaneHead> heads_;
};

/// From name to name.
class LaneWalk::ByName {
 public:
  ByName(Statement& next_of_topic, TopicNames& names, const TopicSelection& topics)
      : next_of_topic_(next_of_topic), names_(names), topics_(topics) {}

  /// False when it has arrived.
  bool step() {
    if (range_) {
      if (const std::optional<TopicNames::Named> named = range_->next()) {
        add_lanes(named->number, named->name);
      } else {
        range_.reset();
      }
      return true;
    }
    if (place_ == topics_.only.size()) return false;
    const TopicPattern& pattern = topics_.only[place_++];
    if (!pattern.is_exact()) {
      range_.emplace(names_, pattern.stem());
    } else if (const std::optional<std::int64_t> number = names_.find(pattern.str())) {
      add_lanes(*number, pattern.str());
    }
    return true;
  }

  [[nodiscard]] std::vector<LaneHead> take() noexcept { return std::move(heads_); }

 private:
  void add_lanes(std::int64_t topic, std::string_view name) {
    if (!topics_.matches(name) || !known_.insert(topic).second) return;
    std::int64_t rank = kBeforeEveryRank;
    while (const std::optional<LaneHead> head = head_from(next_of_topic_, topic, rank)) {
      heads_.push_back(*head);
      rank = head->rank + 1;
    }
  }

  Statement& next_of_topic_;
  TopicNames& names_;
  const TopicSelection& topics_;
  std::size_t place_ = 0;
  std::optional<TopicNames::Range> range_;
  std::unordered_set<std::int64_t> known_;  ///< two patterns may name one topic
  std::vector<LaneHead> heads_;
};

std::vector<LaneHead> LaneWalk::heads(TopicNames& names, const TopicSelection& topics) {
  ByExposure exposed(next_lane_, names, topics);
  if (wants_every_topic(topics)) {
    while (exposed.step()) {
    }
    return exposed.take();
  }
  ByName named(next_of_topic_, names, topics);
  for (;;) {
    if (!exposed.step()) return exposed.take();
    if (!named.step()) return named.take();
  }
}

}  // namespace oncebox::sqlite
