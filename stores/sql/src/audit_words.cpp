#include "oncebox/sql/audit_words.hpp"

#include <algorithm>
#include <iterator>

#include "oncebox/error.hpp"

namespace oncebox::sql {

namespace {

template <class Enum, std::size_t Count>
Enum value_of(std::string_view word, const Enum (&values)[Count]) {
  const auto* const found = std::find_if(std::begin(values), std::end(values),
                                         [&](Enum value) { return to_string(value) == word; });
  if (found == std::end(values)) {
    throw Error(ErrorCode::corrupt, "the audit trail has a word that this version does not know");
  }
  return *found;
}

}  // namespace

AuditAction audit_action(std::string_view word) { return value_of(word, kAuditActions); }
AuditedPart audited_part(std::string_view word) { return value_of(word, kAuditedParts); }
AuditStatus audit_status(std::string_view word) { return value_of(word, kAuditStatuses); }

}  // namespace oncebox::sql
