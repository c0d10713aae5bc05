#include "queue_lanes.hpp"

#include <fmt/format.h>

namespace oncebox::sqlite {

LaneWalk::LaneWalk(Connection& connection, std::string_view queue)
    : next_topic_(connection.prepare(fmt::format(R"sql(
SELECT topic FROM oncebox_{}_state
 WHERE stage = 1 AND topic > ?1 ORDER BY topic LIMIT 1)sql",
                                                 queue))),
      next_rank_(connection.prepare(fmt::format(R"sql(
SELECT rank FROM oncebox_{}_state
 WHERE stage = 1 AND topic = ?1 AND rank > ?2 ORDER BY rank LIMIT 1)sql",
                                                queue))) {}

}  // namespace oncebox::sqlite
