#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "http/memory_budget.hpp"

namespace oncebox::server {

/// Bytes that are to be written on a connection: small answers one behind the other, then perhaps
/// the body of a large one, which is taken as it is rather than copied.
struct Outgoing {
  /// Room beyond this is not kept.
  static constexpr std::size_t kKeepBytes = std::size_t{4} << 10;

  std::string text;
  std::string body;
  MemoryHold hold;

  [[nodiscard]] std::size_t size() const noexcept { return text.size() + body.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// What comes next when so many bytes are written; all of the rest comes in two of them at most.
  [[nodiscard]] std::string_view rest(std::size_t written) const noexcept {
    if (written < text.size()) return std::string_view(text).substr(written);
    return std::string_view(body).substr(std::min(written - text.size(), body.size()));
  }
  /// All of it is written.
  void clear() noexcept {
    text.clear();
    if (text.capacity() > kKeepBytes) text = {};
    if (!body.empty()) body = {};
    hold.release();
  }
};

}  // namespace oncebox::server
