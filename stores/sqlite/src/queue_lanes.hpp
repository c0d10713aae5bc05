#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "connection.hpp"
#include "oncebox/topic_pattern.hpp"
#include "topic_names.hpp"

namespace oncebox::sqlite {

/// A lane is the exposed messages of one topic and rank; they stand together in the index. This
/// walks from lane to lane without looking at what is in them, however many that is.
class LaneWalk {
 public:
  LaneWalk(Connection& connection, std::string_view queue);

  /// Calls `visit(topic, rank)` for each lane of the selected topics, by topic, then by rank.
  template <class Visit>
  void visit_all(TopicNames& names, const TopicSelection& topics, Visit visit) {
    constexpr std::int64_t kBeforeEveryRank = -1'000;
    std::int64_t topic = 0;
    while (next(next_topic_.bind(1, topic), topic)) {
      if (!topics.matches(names.name_of(topic).str())) continue;
      std::int64_t rank = kBeforeEveryRank;
      while (next(next_rank_.bind(1, topic).bind(2, rank), rank)) visit(topic, rank);
    }
  }

 private:
  static bool next(Statement& statement, std::int64_t& place) {
    const ResetLater reset(statement);
    if (!statement.step()) return false;
    place = statement.int64(0);
    return true;
  }

  Statement next_topic_;
  Statement next_rank_;
};

}  // namespace oncebox::sqlite
