#include <algorithm>
#include <cstddef>
#include <utility>

#include "api/answer_hold.hpp"
#include "api/api_routes.hpp"
#include "api/call_limits.hpp"
#include "api/dead_calls.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/operate/dead_groups.hpp"
#include "oncebox/wire/dead_json.hpp"

/// What helps to find out what failed.
namespace oncebox::server {

namespace {

/// That one call looks at.
constexpr std::size_t kMaxGroupedMessages = 1'000'000;
constexpr std::size_t kMaxGroupsAtOnce = 1'000;

/// Of a group at most, with the longest names and error.
constexpr std::size_t kGroupBytes = std::size_t{10} << 10;

Response list_groups(const ExchangePtr& exchange, QueueOperator& queue) {
  const Request& request = exchange->request();
  DeadGroupsRequest wanted = wire::read_dead_groups_query(request.query);
  CallLimits(request).narrow(wanted.filter);
  require_in_range("limit", wanted.max_groups, 1, kMaxGroupsAtOnce);
  require_in_range("maxMessages", wanted.max_records, 1, kMaxGroupedMessages);
  AnswerHold hold = AnswerHold::for_look(*exchange, wanted.max_groups * kGroupBytes);
  wanted.max_groups = std::clamp<std::size_t>(hold.max_bytes() / kGroupBytes, 1, wanted.max_groups);
  const DeadGroups found = group_dead(queue, wanted, while_there(watch(exchange)));
  return std::move(hold).answer(wire::write_dead_groups(found));
}

}  // namespace

void add_recovery_routes(Router& router, const ApiContext& context) {
  add_queue_route(router, context, {.path = "/dead/groups", .limits = HeldLimits::all},
                  [](const QueueCall& call) {
                    call.queue->looks.answer(call.exchange, [exchange = call.exchange,
                                                             queue = call.queue](const Request&) {
                      return list_groups(exchange, queue->operations);
                    });
                  });
}

}  // namespace oncebox::server
