#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/tracing.hpp"

namespace oncebox::otlp {

/// Turns steady times into the nanoseconds since 1970 that a collector wants. The wall clock is
/// read seldom, so that spans of one trace have times that agree. Safe from any thread.
class WallTimes {
 public:
  /// The clock is borrowed.
  explicit WallTimes(const Clock& clock);

  [[nodiscard]] std::int64_t nanoseconds(SteadyTime time) const noexcept;
  /// Follows the wall clock if it was set since.
  void follow();

 private:
  [[nodiscard]] std::int64_t offset_now() const;

  const Clock& clock_;
  std::atomic<std::int64_t> offset_ns_;
};

/// One span as an object of OTLP's JSON.
[[nodiscard]] std::string span_json(const Span& span, const WallTimes& times);

/// The body of a request. `spans` are objects.
[[nodiscard]] std::string request_json(std::string_view service_name,
                                       const std::map<std::string, std::string>& resource,
                                       std::span<const std::string> spans);

/// How many of the spans the collector says it rejected, in the body of an answer.
[[nodiscard]] std::uint64_t rejected_spans(std::string_view answer) noexcept;

}  // namespace oncebox::otlp
