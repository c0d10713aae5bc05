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

std::string list_groups(QueueOperator& queue, const Request& request, const Presence& present) {
  DeadGroupsRequest wanted = wire::read_dead_groups_query(request.query);
  CallLimits(request).narrow(wanted.filter);
  require_in_range("limit", wanted.max_groups, 1, kMaxGroupsAtOnce);
  require_in_range("maxMessages", wanted.max_records, 1, kMaxGroupedMessages);
  return wire::write_dead_groups(group_dead(queue, wanted, while_there(present)));
}

}  // namespace

void add_recovery_routes(Router& router, const ApiContext& context) {
  add_queue_route(
      router, context, {.path = "/dead/groups", .limits = HeldLimits::all},
      [](const QueueCall& call) {
        call.queue->calls.answer(
            call.exchange, [exchange = call.exchange, queue = call.queue](const Request& request) {
              return json_response(list_groups(queue->operations, request, watch(exchange)));
            });
      });
}

}  // namespace oncebox::server
