#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/audit_trail.hpp"
#include "oncebox/dead_group.hpp"
#include "oncebox/wire/operator_json.hpp"

/// The bodies and queries of the audit trail, and what its entries say. Rules as in
/// message_json.hpp.
namespace oncebox::wire {

/// `{"entries": [{"id": 7, "actor": …, "action": "Revive", "part": "Inbox", "subject": …, "reason":
/// …, "begunAt": …, "finishedAt": …, "status": "Succeeded", "changed": 3, "detail": …}], "next":
/// …}`; without a status nobody knows how it ended. The subject is text: it may have been cut.
[[nodiscard]] std::string write_audit_page(const AuditPage& page);
[[nodiscard]] AuditPage read_audit_page(std::string_view json);
/// One entry by itself.
[[nodiscard]] std::string write_audit_record(const AuditRecord& record);

/// `actor`, `action` (several with commas between), `from`, `until`, `after` and `limit`.
[[nodiscard]] AuditListRequest read_audit_query(std::span<const QueryParameter> parameters);
[[nodiscard]] std::string write_audit_query(const AuditListRequest& request);

/// `{"retentionSeconds": …, "limit": …, "reason": …}`; the answer is a count.
[[nodiscard]] AuditCleanupRequest read_audit_cleanup(std::string_view json);
[[nodiscard]] std::string write_audit_cleanup(const AuditCleanupRequest& request);

/// What was selected, for an entry: how many keys and the first of them and the filter that narrows
/// them, or the filter, and the group.
[[nodiscard]] std::string audit_subject(const MessageSelection& which,
                                        const std::optional<DeadGroupId>& group = {},
                                        const std::optional<MessageFilter>& only = {});
/// The same of a call that reschedules, with the due time.
[[nodiscard]] std::string audit_subject(const ActCall& call);
/// What changes in the rule for a topic: the fields and their new values.
[[nodiscard]] std::string audit_subject(const TopicPattern& topic, const TopicPolicyChange& change);
/// That the rule for a topic is removed.
[[nodiscard]] std::string audit_removal(const TopicPattern& topic);

}  // namespace oncebox::wire
