#include "event_parser.hpp"

namespace oncebox::http {

namespace {

// The value of a field: one space after the colon is not part of it.
std::string_view value_of(std::string_view line, std::string_view field) {
  line.remove_prefix(field.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

}  // namespace

void EventParser::append(std::string_view part) {
  if (line_.size() + part.size() > kMaxLineBytes) too_long_ = true;
  if (too_long_) {
    line_.clear();
  } else {
    line_ += part;
  }
}

bool EventParser::take_line() {
  if (line_.ends_with('\r')) line_.pop_back();
  const bool is_end = line_.empty() && !too_long_;
  constexpr std::string_view kEvent = "event:";
  constexpr std::string_view kData = "data:";
  if (line_.starts_with(kEvent)) {
    name_ = value_of(line_, kEvent);
  } else if (line_.starts_with(kData)) {
    data_ = value_of(line_, kData);
  }
  line_.clear();
  too_long_ = false;
  return is_end && !name_.empty();
}

}  // namespace oncebox::http
