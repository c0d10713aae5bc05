#pragma once

#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncebox/log.hpp"

namespace oncebox::server {

/// Adds a request's id to every line that is written because of it.
class RequestLogger final : public Logger {
 public:
  /// The logger is borrowed.
  RequestLogger(Logger& below, std::string request_id)
      : below_(below), request_id_(std::move(request_id)) {}

  [[nodiscard]] bool enabled(LogLevel level) const noexcept override {
    return below_.enabled(level);
  }
  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept override {
    try {
      std::vector<LogField> more;
      more.reserve(fields.size() + 1);
      more.assign(fields.begin(), fields.end());
      more.emplace_back("request_id", request_id_);
      below_.write(level, text, more);
    } catch (const std::bad_alloc&) {
      below_.write(level, text, fields);
    }
  }

 private:
  Logger& below_;
  const std::string request_id_;
};

}  // namespace oncebox::server
