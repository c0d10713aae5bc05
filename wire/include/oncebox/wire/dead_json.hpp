#pragma once

#include <span>
#include <string>

#include "oncebox/dead_group.hpp"
#include "oncebox/dead_notice.hpp"
#include "oncebox/wire/operator_json.hpp"

/// Groups of dead messages. Rules as in message_json.hpp.
namespace oncebox::wire {

/// By query parameters: those of a filter but for the status, `limit` (of groups) and `maxMessages`
/// (to look at). Throws `invalid_argument` for an unknown or repeated one.
[[nodiscard]] DeadGroupsRequest read_dead_groups_query(std::span<const QueryParameter> parameters);

/// `{"groups": [{"group": "order.created:00ff17a92c03d5e8", "topic": "order.created",
/// "fingerprint": …, "error": …, "count": 3, "firstAt": …, "lastAt": …, "sample": {"source": …,
/// "messageId": …}}], "messages": 5, "others": 0, "complete": true, "fingerprintVersion": 1}`
[[nodiscard]] std::string write_dead_groups(const DeadGroups& found);

/// What is sent to a webhook, in the form of Standard Webhooks: `{"type": "oncebox.dead",
/// "timestamp": …, "data": {"store": …, "queue": …, "threshold": 10, "group": …, …}}`; with
/// `"moreGroups": N` where so many are not told one by one.
[[nodiscard]] std::string write_dead_notice(const DeadNotice& notice, TimePoint now);

}  // namespace oncebox::wire
