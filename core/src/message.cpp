#include "oncebox/message.hpp"

#include <fmt/format.h>

#include "oncebox/error.hpp"

namespace oncebox {

Priority::Priority(int value) : value_(static_cast<std::int16_t>(value)) {
  if (value < kMin || value > kMax) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("the priority is {}; it must be from {} to {}", value, kMin, kMax));
  }
}

std::size_t bytes_of(const Message& message) noexcept {
  return message.payload.size() + bytes_of(message.headers);
}

std::string_view to_string(Status status) noexcept {
  switch (status) {
    case Status::seen:
      return "seen";
    case Status::processing:
      return "processing";
    case Status::done:
      return "done";
    case Status::dead:
      return "dead";
  }
  return "unknown";
}

std::string_view to_string(State state) noexcept {
  switch (state) {
    case State::seen:
      return "seen";
    case State::waiting:
      return "waiting";
    case State::ready:
      return "ready";
    case State::leased:
      return "leased";
    case State::done:
      return "done";
    case State::dead:
      return "dead";
  }
  return "unknown";
}

std::string_view to_string(WaitingFor what) noexcept {
  switch (what) {
    case WaitingFor::content:
      return "content";
    case WaitingFor::partition:
      return "partition";
    case WaitingFor::due:
      return "due";
    case WaitingFor::backoff:
      return "backoff";
    case WaitingFor::pause:
      return "pause";
  }
  return "unknown";
}

Status status_of(State state) noexcept {
  switch (state) {
    case State::seen:
      return Status::seen;
    case State::waiting:
    case State::ready:
    case State::leased:
      return Status::processing;
    case State::done:
      return Status::done;
    case State::dead:
      return Status::dead;
  }
  return Status::seen;
}

}  // namespace oncebox
