#include "oncebox/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace oncebox {

namespace {

bool is_plain(std::string_view text) {
  const auto plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte != 0x7F && c != '"' && c != '=' && c != '\\';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), plain);
}

void append_quoted(std::string& line, std::string_view text) {
  line += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (byte < ' ' || byte == 0x7F) {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  line += '"';
}

struct AppendValue {
  std::string& line;

  void operator()(bool flag) const { line += flag ? "true" : "false"; }
  void operator()(std::int64_t number) const {
    fmt::format_to(std::back_inserter(line), "{}", number);
  }
  void operator()(double number) const { fmt::format_to(std::back_inserter(line), "{}", number); }
  void operator()(std::string_view text) const {
    if (is_plain(text)) {
      line += text;
    } else {
      append_quoted(line, text);
    }
  }
  void operator()(const Uuid& uuid) const { line += uuid.to_string(); }
};

}  // namespace

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "unknown";
}

void TextLogger::write(LogLevel level, std::string_view text,
                       std::span<const LogField> fields) noexcept {
  try {
    std::string line = format_rfc3339(clock_.now());
    line += ' ';
    line += to_string(level);
    line += ' ';
    line += text;
    for (const LogField& field : fields) {
      line += ' ';
      line += field.name();
      line += '=';
      std::visit(AppendValue{line}, field.value());
    }
    line += '\n';
    const std::lock_guard lock(mutex_);
    out_ << line << std::flush;
  } catch (...) {
    // A log line that cannot be written must not fail the work that it tells of.
  }
}

}  // namespace oncebox
