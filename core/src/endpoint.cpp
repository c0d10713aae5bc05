#include "oncebox/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

[[noreturn]] void refuse(std::string_view why) {
  throw Error(ErrorCode::invalid_argument, std::string(why));
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool may_be_in_name(char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; }

bool may_be_in_field_name(char c) {
  return is_letter_or_digit(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string::npos;
}

bool may_be_in_field_value(char c) { return c >= ' ' && c <= '~'; }

bool may_be_in_url(char c) { return c > ' ' && c <= '~'; }

void require_target(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const bool has_scheme = scheme != std::string_view::npos && scheme > 0;
  if (!has_scheme || scheme + 3 == url.size() || url.size() > Endpoint::kMaxTextBytes ||
      !std::ranges::all_of(url, may_be_in_url)) {
    refuse("url: an address such as https://example.com/hook is expected");
  }
  const std::string_view rest = url.substr(scheme + 3);
  if (rest.substr(0, rest.find_first_of("/?#")).find('@') != std::string_view::npos) {
    refuse("url: no user or password in the address; everybody who lists endpoints would see it");
  }
}

void require_field_lines(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (!std::ranges::all_of(name, may_be_in_field_name) ||
        !std::ranges::all_of(value, may_be_in_field_value)) {
      refuse("headers: a name or a value cannot stand in an HTTP request");
    }
  }
}

// Only a failure that says something new changes the status, because every change is a version that
// all processes read.
void add_failure(EndpointStatus& status, Duration disable_after, TimePoint at) {
  if (!status.failing_since) {
    status.failing_since = status.last_failure = at;
    return;
  }
  if (disable_after == Duration::zero()) return;
  const Duration pause = at - status.last_failure.value_or(*status.failing_since);
  if (pause > disable_after / 4) status.failing_since = at;
  if (pause >= disable_after / 40) status.last_failure = at;
}

}  // namespace

void Endpoint::validate() const {
  if (!std::ranges::all_of(name.str(), may_be_in_name)) {
    refuse("name: letters, digits, '-', '_' and '.' are expected");
  }
  require_target(url);
  require_in_range("topics", topics.size(), 0, kMaxTopics);
  if (secrets) {
    require_in_range("secrets", secrets->size(), 0, kMaxSecrets);
    for (const std::string& secret : *secrets) {
      require_in_range("length of a secret", secret.size(), 1, kMaxTextBytes);
    }
  }
  require_field_lines(headers);
  if (timeout) require_in_range("timeout", *timeout, Duration{1}, kMaxTimeout);
  require_in_range("disable_after", disable_after, Duration::zero(), limits::kMaxDelay);
}

bool Endpoint::takes(std::string_view topic) const noexcept {
  return std::ranges::any_of(topics,
                             [&](const TopicPattern& pattern) { return pattern.matches(topic); });
}

bool is_literal_secret(std::string_view reference) noexcept {
  return reference.starts_with("literal:");
}

EndpointStatus status_after(const EndpointRecord& known, const EndpointEvent& event) {
  EndpointStatus status = known.status;
  switch (event.kind) {
    case EndpointEvent::Kind::failed:
      add_failure(status, known.endpoint.disable_after, event.at);
      break;
    case EndpointEvent::Kind::worked:
      status.failing_since.reset();
      status.last_failure.reset();
      break;
    case EndpointEvent::Kind::disabled:
      if (!status.disabled) {
        status.disabled = {event.at, clip_text(event.reason, limits::kMaxReasonBytes)};
      }
      break;
    case EndpointEvent::Kind::enabled:
      status = {};
      break;
  }
  return status;
}

bool has_failed_too_long(const EndpointRecord& known, TimePoint now) noexcept {
  const Duration patience = known.endpoint.disable_after;
  const std::optional<TimePoint>& since = known.status.failing_since;
  return since && patience > Duration::zero() && now - *since >= patience;
}

}  // namespace oncebox
