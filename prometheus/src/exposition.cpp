#include "oncebox/prometheus/exposition.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace oncebox::metrics {

std::string exposition(const prometheus::Registry& registry) {
  std::vector<prometheus::MetricFamily> families = registry.Collect();
  // The library keeps them by kind and members by hash; a reader looks for names.
  std::sort(families.begin(), families.end(),
            [](const auto& left, const auto& right) { return left.name < right.name; });
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

}  // namespace oncebox::metrics
