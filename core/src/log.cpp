#include "oncebox/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>

#include "utf8.hpp"

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

/// Whether it can stand between quotes as it is.
bool is_plain_json(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= ' ' && byte < 0x7F && c != '"' && c != '\\';
  });
}

void append_json_character(std::string& line, std::string_view character) {
  const char c = character.front();
  if (c == '"' || c == '\\') {
    line += '\\';
    line += c;
  } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) {
    fmt::format_to(std::back_inserter(line), "\\u{:04x}", static_cast<unsigned>(c));
  } else {
    line += character;
  }
}

void append_json(std::string& line, std::string_view text) {
  line += '"';
  if (is_plain_json(text)) {
    line += text;
  } else {
    while (!text.empty()) {
      const auto [bytes, valid] = detail::decode_first(text);
      if (valid) {
        append_json_character(line, text.substr(0, bytes));
      } else {
        line += "\xEF\xBF\xBD";
      }
      text.remove_prefix(bytes);
    }
  }
  line += '"';
}

struct AppendJsonValue {
  std::string& line;

  void operator()(bool flag) const { line += flag ? "true" : "false"; }
  void operator()(std::int64_t number) const {
    fmt::format_to(std::back_inserter(line), "{}", number);
  }
  void operator()(double number) const {
    if (std::isfinite(number)) {
      fmt::format_to(std::back_inserter(line), "{}", number);
    } else {
      line += "null";
    }
  }
  void operator()(std::string_view text) const { append_json(line, text); }
  void operator()(const Uuid& uuid) const { append_json(line, uuid.to_string()); }
};

/// Most lines fit.
constexpr std::size_t kUsualLineBytes = 384;
/// So many may wait; then the thread that logs writes them.
constexpr std::size_t kMaxWaitingBytes = 1 << 20;

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

StreamLogger::StreamLogger(std::ostream& out, const Clock& clock, const LogOptions& options)
    : out_(out),
      clock_(clock),
      flush_interval_(options.flush_interval),
      min_level_(options.min_level),
      changed_(clock) {
  if (flush_interval_ > Duration::zero()) {
    flusher_ = std::jthread([this] { flush_often(); });
  }
}

StreamLogger::~StreamLogger() {
  {
    const detail::Lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  flusher_ = {};
  flush();
}

void StreamLogger::write(LogLevel level, std::string_view text,
                         std::span<const LogField> fields) noexcept {
  try {
    std::string line;
    line.reserve(kUsualLineBytes);
    format(line, {.time = clock_.now(), .level = level, .text = text, .fields = fields});
    line += '\n';
    bool is_first = false;
    bool is_due = flush_interval_ == Duration::zero() || level >= LogLevel::warning;
    {
      const detail::Lock lock(mutex_);
      is_first = waiting_.empty();
      waiting_ += line;
      is_due = is_due || waiting_.size() > kMaxWaitingBytes;
    }
    if (is_due) {
      flush();
    } else if (is_first) {
      changed_.notify_one();
    }
  } catch (...) {
    // A log line that cannot be written must not fail the work that it tells of.
  }
}

void StreamLogger::flush() noexcept {
  try {
    const detail::Lock out_lock(out_mutex_);
    std::string lines;
    {
      const detail::Lock lock(mutex_);
      lines.swap(waiting_);
      if (flush_interval_ > Duration::zero()) waiting_.reserve(lines.size());
    }
    if (!lines.empty()) out_ << lines << std::flush;
  } catch (...) {
    // As in `write`.
  }
}

void StreamLogger::flush_often() {
  detail::Lock lock(mutex_);
  for (;;) {
    while (waiting_.empty() && !ends_) changed_.wait(mutex_);
    if (ends_) return;
    // Lets more lines gather; only the end of the logger cuts the interval short.
    const SteadyTime flush_at = clock_.steady() + flush_interval_;
    while (!ends_ && changed_.wait_until(mutex_, flush_at)) continue;
    lock.unlock();
    flush();
    lock.lock();
  }
}

void TextLogger::format(std::string& out, const Line& line) const {
  out += format_rfc3339(line.time);
  out += ' ';
  out += to_string(line.level);
  out += ' ';
  out += line.text;
  for (const LogField& field : line.fields) {
    out += ' ';
    out += field.name();
    out += '=';
    std::visit(AppendValue{out}, field.value());
  }
}

void JsonLogger::format(std::string& out, const Line& line) const {
  out += R"({"time":")";
  out += format_rfc3339(line.time);
  out += R"(","level":")";
  out += to_string(line.level);
  out += R"(","message":)";
  append_json(out, line.text);
  for (const LogField& field : line.fields) {
    out += ',';
    append_json(out, field.name());
    out += ':';
    std::visit(AppendJsonValue{out}, field.value());
  }
  out += '}';
}

}  // namespace oncebox
