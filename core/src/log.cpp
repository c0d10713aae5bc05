#include "oncebox/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>
#include <utility>

#include "oncebox/internal/escaped_text.hpp"

namespace oncebox {

namespace {

bool is_plain(std::string_view text) {
  const auto plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte < 0x7F && c != '"' && c != '=' && c != '\\';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), plain);
}

void append_text(std::string& line, std::string_view text) {
  if (is_plain(text)) {
    line += text;
    return;
  }
  line += '"';
  detail::append_escaped(line, text, detail::EscapeStyle::quoted);
  line += '"';
}

struct AppendValue {
  std::string& line;

  void operator()(bool flag) const { line += flag ? "true" : "false"; }
  void operator()(std::int64_t number) const {
    fmt::format_to(std::back_inserter(line), "{}", number);
  }
  void operator()(double number) const { fmt::format_to(std::back_inserter(line), "{}", number); }
  void operator()(std::string_view text) const { append_text(line, text); }
  void operator()(const Uuid& uuid) const { line += uuid.to_string(); }
};

void append_json(std::string& line, std::string_view text) {
  line += '"';
  detail::append_escaped(line, text, detail::EscapeStyle::json);
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
/// When so many wait they are written before the interval has passed.
constexpr std::size_t kManyWaitingBytes = std::size_t{256} << 10;
/// So many may wait for the flusher; lines beyond them are dropped.
constexpr std::size_t kMaxWaitingBytes = std::size_t{4} << 20;

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

StreamLogger::StreamLogger(std::ostream& out, const Clock& clock, const LogOptions& options,
                           Format format)
    : out_(out),
      clock_(clock),
      flush_interval_(options.flush_interval),
      format_(format),
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
    format_(line, {.time = clock_.now(), .level = level, .text = text, .fields = fields});
    line += '\n';
    if (flush_interval_ > Duration::zero()) {
      leave_to_the_flusher(level, line);
      return;
    }
    {
      const detail::Lock lock(mutex_);
      waiting_ += line;
    }
    flush();
  } catch (...) {
    drop(1);  // A line that cannot be written must not fail the work that it tells of.
  }
}

void StreamLogger::leave_to_the_flusher(LogLevel level, std::string_view line) {
  bool is_news = false;  // for the flusher
  {
    const detail::Lock lock(mutex_);
    if (waiting_.size() + line.size() > kMaxWaitingBytes) {
      ++untold_;
      ++dropped_;
      return;
    }
    const bool was_urgent = is_urgent_;
    is_news = waiting_.empty();
    waiting_ += line;
    is_urgent_ |= level >= LogLevel::warning || waiting_.size() > kManyWaitingBytes;
    is_news |= is_urgent_ && !was_urgent;
  }
  if (is_news) changed_.notify_one();
}

void StreamLogger::drop(std::uint64_t lines) noexcept {
  const detail::Lock lock(mutex_);
  untold_ += lines;
  dropped_ += lines;
}

void StreamLogger::flush() noexcept {
  const detail::Lock out_lock(out_mutex_);
  std::string lines;
  std::uint64_t untold = 0;
  {
    const detail::Lock lock(mutex_);
    lines.swap(waiting_);
    is_urgent_ = false;
    untold = std::exchange(untold_, 0);
  }
  if (lines.empty() && untold == 0) return;
  const auto count = static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  try {
    if (untold > 0) append_dropped(lines, untold);
    out_.clear();  // a disk that was full, or a reader that was away, may be back
    out_ << lines << std::flush;
    if (out_.good()) return;
  } catch (...) {
    // No memory, or the stream is one that throws.
  }
  const detail::Lock lock(mutex_);
  untold_ += untold + count;
  dropped_ += count;
}

void StreamLogger::append_dropped(std::string& lines, std::uint64_t count) const {
  const LogField field("count", count);
  format_(lines, {.time = clock_.now(),
                  .level = LogLevel::warning,
                  .text = "log lines dropped",
                  .fields = {&field, 1}});
  lines += '\n';
}

void StreamLogger::flush_often() {
  detail::Lock lock(mutex_);
  for (;;) {
    while (waiting_.empty() && !ends_) changed_.wait(mutex_);
    if (ends_) return;
    // Lets more lines gather.
    const SteadyTime flush_at = clock_.steady() + flush_interval_;
    while (!ends_ && !is_urgent_ && changed_.wait_until(mutex_, flush_at)) continue;
    lock.unlock();
    flush();
    lock.lock();
  }
}

void TextLogger::format(std::string& out, const Line& line) {
  out += format_rfc3339(line.time);
  out += ' ';
  out += to_string(line.level);
  out += ' ';
  detail::append_escaped(out, line.text, detail::EscapeStyle::printed);
  for (const LogField& field : line.fields) {
    out += ' ';
    out += field.name();
    out += '=';
    std::visit(AppendValue{out}, field.value());
  }
}

void JsonLogger::format(std::string& out, const Line& line) {
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
