#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "connection.hpp"
#include "oncebox/topic_pattern.hpp"
#include "topic_names.hpp"

namespace oncebox::sqlite {

/// The first message of a lane, as the index has it: the lane's best one.
struct LaneHead {
  std::int64_t topic = 0;
  std::int64_t rank = 0;
  std::int64_t eligible_at = 0;
  std::int64_t enqueue_order = 0;
  std::int64_t id = 0;
};

/// A lane is the exposed messages of one topic and rank; they stand together in the index. This
/// walks from lane to lane without looking at what is behind the first message of each, however
/// many that is. Two ways lead to the lanes of some topics: by what is exposed, past the topics
/// that are not wanted, and by the names that are wanted, past those of which nothing is exposed.
/// Both are walked in turns until one has arrived, so that neither a great many topics of others
/// nor a great many names of the past cost a claim anything.
class LaneWalk {
 public:
  LaneWalk(Connection& connection, std::string_view queue);

  /// The heads of all lanes of the selected topics, each once.
  [[nodiscard]] std::vector<LaneHead> heads(TopicNames& names, const TopicSelection& topics);

 private:
  class ByExposure;
  class ByName;

  Statement next_lane_;
  Statement next_of_topic_;
};

}  // namespace oncebox::sqlite
