#include "oncebox/watch_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace oncebox {

namespace {

constexpr std::size_t kReasonsShown = 3;

}  // namespace

std::string_view to_string(FindingCode code) noexcept {
  switch (code) {
    case FindingCode::lease_stuck:
      return "lease_stuck";
    case FindingCode::ready_late:
      return "ready_late";
    case FindingCode::store_lagging:
      return "store_lagging";
    case FindingCode::topic_poison:
      return "topic_poison";
  }
  return "unknown";
}

std::string WatchdogReport::detail() const {
  std::vector<std::string> reasons;
  for (const WatchedHealth& one : stores) {
    if (one.health.status == HealthStatus::healthy) continue;
    reasons.push_back(fmt::format("store {}: {}", one.store, one.health.detail));
  }
  for (const Finding& finding : findings) {
    reasons.push_back(fmt::format("{}{}{}: {}", finding.store, finding.queue.empty() ? "" : "/",
                                  finding.queue, finding.detail));
  }
  const std::size_t shown = std::min(reasons.size(), kReasonsShown);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : "; ") + reasons[i];
  if (reasons.size() > shown) text += fmt::format("; and {} more", reasons.size() - shown);
  return text;
}

}  // namespace oncebox
