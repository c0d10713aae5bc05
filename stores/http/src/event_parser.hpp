#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace oncebox::http {

/// Takes server-sent events out of a stream that comes in pieces. Lines that are too long are
/// dropped, so that no server can fill the memory.
class EventParser {
 public:
  static constexpr std::size_t kMaxLineBytes = 64 << 10;

  /// Calls `on_event(std::string_view name, std::string_view data)` for every event that is
  /// complete.
  template <class OnEvent>
  void feed(std::string_view piece, OnEvent on_event) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      append(piece.substr(0, end));
      if (end == std::string_view::npos) return;
      piece.remove_prefix(end + 1);
      if (take_line()) {
        on_event(std::string_view(name_), std::string_view(data_));
        name_.clear();
        data_.clear();
      }
    }
  }

 private:
  void append(std::string_view part);
  /// True when the line ends an event.
  bool take_line();

  std::string line_;
  bool too_long_ = false;
  std::string name_;
  std::string data_;
};

}  // namespace oncebox::http
