#pragma once

#include <string_view>

#include "oncebox/audit_trail.hpp"

/// The words by which the tables name what an audit entry says. Throw `corrupt` for any other.
namespace oncebox::sql {

[[nodiscard]] AuditAction audit_action(std::string_view word);
[[nodiscard]] AuditedPart audited_part(std::string_view word);
[[nodiscard]] AuditStatus audit_status(std::string_view word);

}  // namespace oncebox::sql
