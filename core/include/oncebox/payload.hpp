#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace oncebox {

/// The bytes of a message; Oncebox never looks into them.
///
/// A type of its own, not a string, so that no log line, error text or header can take it by
/// mistake: whoever wants the bytes has to say so.
class Payload {
 public:
  Payload() = default;
  Payload(std::string bytes) : bytes_(std::move(bytes)) {}
  Payload(std::string_view bytes) : bytes_(bytes) {}
  Payload(const char* text) : bytes_(text) {}

  [[nodiscard]] const std::string& bytes() const& noexcept { return bytes_; }
  [[nodiscard]] std::string bytes() && noexcept { return std::move(bytes_); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }

  friend bool operator==(const Payload&, const Payload&) = default;

 private:
  std::string bytes_;
};

}  // namespace oncebox
