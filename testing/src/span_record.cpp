#include "oncebox/testing/span_record.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <variant>

namespace oncebox::testing {

namespace {

std::string text_of(const LogField& field) {
  std::ostringstream text;
  text << std::boolalpha;
  std::visit(
      [&](const auto& value) {
        if constexpr (requires { value.to_string(); }) {
          text << value.to_string();
        } else {
          text << value;
        }
      },
      field.value());
  return text.str();
}

}  // namespace

std::vector<SpanRecord::Recorded> SpanRecord::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

std::vector<SpanRecord::Recorded> SpanRecord::spans_of(SpanOperation operation) const {
  const std::lock_guard lock(mutex_);
  std::vector<Recorded> found;
  std::ranges::copy_if(spans_, std::back_inserter(found),
                       [&](const Recorded& span) { return span.operation == operation; });
  return found;
}

bool SpanRecord::wait_for(std::size_t spans, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, timeout, [&] { return spans_.size() >= spans; });
}

void SpanRecord::on_span(const Span& span) noexcept {
  Recorded recorded{.operation = span.operation,
                    .target = std::string(span.target),
                    .context = span.context,
                    .parent = span.parent,
                    .trace_state = std::string(span.trace_state),
                    .links = {span.links.begin(), span.links.end()},
                    .began_at = span.began_at,
                    .ended_at = span.ended_at,
                    .error = std::string(span.error),
                    .fields = {}};
  for (const LogField& field : span.fields) {
    recorded.fields.emplace(std::string(field.name()), text_of(field));
  }
  const std::lock_guard lock(mutex_);
  spans_.push_back(std::move(recorded));
  ended_.notify_all();
}

}  // namespace oncebox::testing
