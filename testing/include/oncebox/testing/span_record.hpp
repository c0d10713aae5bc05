#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "oncebox/tracing.hpp"

namespace oncebox::testing {

/// A tracer that remembers the spans that have ended. Safe to use from any thread.
class SpanRecord final : public Tracer {
 public:
  struct Recorded {
    SpanOperation operation = SpanOperation::enqueue;
    std::string target;
    TraceContext context;
    std::optional<TraceContext::SpanId> parent;
    std::string trace_state;
    std::vector<TraceContext> links;
    SteadyTime began_at;
    SteadyTime ended_at;
    std::string error;
    std::map<std::string, std::string> fields;
  };

  /// In the order in which they ended.
  [[nodiscard]] std::vector<Recorded> spans() const;
  [[nodiscard]] std::vector<Recorded> spans_of(SpanOperation operation) const;

  /// Waits until so many spans have ended; false when the time is over.
  [[nodiscard]] bool wait_for(std::size_t spans,
                              std::chrono::milliseconds timeout = std::chrono::seconds{30}) const;

  void on_span(const Span& span) noexcept override;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  std::vector<Recorded> spans_;
};

}  // namespace oncebox::testing
