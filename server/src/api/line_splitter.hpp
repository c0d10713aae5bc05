#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace oncebox::server {

/// Cuts text that comes in pieces into lines, wherever the pieces end. Keeps at most one line.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  /// Calls `on_line(std::string_view)` for each line that ends in this piece, without its end, and
  /// `on_long_line()` for one that is too long.
  template <class OnLine, class OnLongLine>
  void feed(std::string_view piece, OnLine on_line, OnLongLine on_long_line) {
    for (;;) {
      const std::size_t end = piece.find('\n');
      if (end == std::string_view::npos) break;
      const std::string_view part = piece.substr(0, end);
      piece.remove_prefix(end + 1);
      if (kept_.empty() && !too_long_ && part.size() <= max_line_bytes_) {
        on_line(without_return(part));
        continue;
      }
      keep(part);
      end_line(on_line, on_long_line);
    }
    keep(piece);
  }

  /// What the line takes that has not ended yet.
  [[nodiscard]] std::size_t kept_bytes() const noexcept { return kept_.capacity(); }

  /// The text has ended: what is left is a line, too.
  template <class OnLine, class OnLongLine>
  void finish(OnLine on_line, OnLongLine on_long_line) {
    if (!kept_.empty() || too_long_) end_line(on_line, on_long_line);
  }

 private:
  static std::string_view without_return(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  void keep(std::string_view part) {
    if (too_long_) return;
    if (part.size() > max_line_bytes_ - kept_.size()) {
      too_long_ = true;
      kept_ = {};
      return;
    }
    const std::size_t wanted = kept_.size() + part.size();
    // By doubling, but to no more than a line may have.
    if (wanted > kept_.capacity()) {
      kept_.reserve(std::min(std::max(wanted, 2 * kept_.capacity()), max_line_bytes_));
    }
    kept_ += part;
  }

  template <class OnLine, class OnLongLine>
  void end_line(OnLine& on_line, OnLongLine& on_long_line) {
    if (too_long_) {
      too_long_ = false;
      on_long_line();
      return;
    }
    std::string line;
    line.swap(kept_);
    on_line(without_return(line));
  }

  std::size_t max_line_bytes_;
  std::string kept_;
  bool too_long_ = false;
};

}  // namespace oncebox::server
