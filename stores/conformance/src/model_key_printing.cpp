#include <string>

#include "model_key_operations.hpp"
#include "model_text.hpp"

/// How the operations read in the report of a failure: close to the calls they stand for.
namespace oncebox::conformance {

namespace {

std::string shown_key(std::size_t place) {
  return testing::PrintToString(vocabulary::idempotency_key(place).str());
}

std::string shown(const LeaseRef& lease) {
  return "acquired[-" + std::to_string(lease.back + 1) + "]" +
         (lease.other_key ? " for the key " + shown_key(*lease.other_key) : "");
}

std::string shown(const BeginDraft& draft) {
  return shown_key(draft.key) + " as owner " + std::to_string(draft.owner) + ", lease " +
         shown_duration(draft.lease) + ", retention " + shown_duration(draft.retention) +
         (draft.on_failed == FailedKeyPolicy::suppress ? ", not if it failed" : "");
}

std::string shown(const CompleteDraft& draft) {
  const std::string what =
      draft.unconditional ? shown_key(*draft.unconditional) + " without lease" : shown(draft.lease);
  const std::string result =
      draft.result ? testing::PrintToString(vocabulary::payload(*draft.result)) : "none";
  return what + ", result " + result + ", retention " + shown_duration(draft.retention);
}

std::string shown(const FailDraft& draft) {
  return shown(draft.lease) + " error " + shown_error(draft.error);
}

std::string shown(const KeyExtensionDraft& draft) {
  return shown(draft.lease) + " lease " + shown_duration(draft.duration);
}

/// So that the overloads above can be passed on.
constexpr auto show = [](const auto& draft) { return shown(draft); };

struct Printer {
  std::string operator()(const BeginKeys& step) const {
    return "begin: " + joined(step.requests, show);
  }
  std::string operator()(const CompleteKeys& step) const {
    return "complete: " + joined(step.requests, show);
  }
  std::string operator()(const FailKeys& step) const {
    return "fail: " + joined(step.requests, show);
  }
  std::string operator()(const ReleaseKeys& step) const {
    return "release: " + joined(step.leases, show);
  }
  std::string operator()(const ExtendKeys& step) const {
    return "extend: " + joined(step.extensions, show);
  }
  std::string operator()(const FindKeys& step) const {
    return "find: " + joined(step.keys, shown_key);
  }
  std::string operator()(const IsProcessed& step) const {
    return "is_processed " + shown_key(step.key);
  }
  std::string operator()(const MarkProcessed& step) const {
    return "mark_processed " + shown_key(step.key);
  }
  std::string operator()(const CleanupKeys& step) const {
    return "cleanup all, limit " + std::to_string(step.limit);
  }
  std::string operator()(const AdvanceKeyTime& step) const {
    return "advance " + shown_duration(step.by);
  }
  std::string operator()(const ReopenKeys&) const { return "reopen"; }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const KeyStep& step) {
  if (!std::holds_alternative<AdvanceKeyTime>(step.operation)) {
    out << "handle " << step.handle << ": ";
  }
  return out << std::visit(Printer{}, step.operation);
}

std::ostream& operator<<(std::ostream& out, const KeySequence& sequence) {
  out << sequence.steps.size() << " steps:";
  print_steps(out, sequence.steps);
  return out;
}

}  // namespace oncebox::conformance
