#include "observe/message_log_filter.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

namespace oncebox::server {

namespace {

constexpr Duration kSecond = std::chrono::seconds{1};

bool is_about_a_message(std::span<const LogField> fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [](const LogField& field) { return field.name() == "message_id"; });
}

}  // namespace

MessageLogFilter::MessageLogFilter(Logger& below, MessageLog mode, const Clock& clock)
    : below_(below), mode_(mode), clock_(clock), changed_(clock) {
  if (mode_ != MessageLog::all) teller_ = std::jthread([this] { tell_often(); });
}

MessageLogFilter::~MessageLogFilter() {
  {
    const detail::Lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
}

void MessageLogFilter::write(LogLevel level, std::string_view text,
                             std::span<const LogField> fields) noexcept {
  if (mode_ != MessageLog::all && is_about_a_message(fields)) {
    if (mode_ == MessageLog::off && level <= LogLevel::info) return;
    try {
      if (!admits(level, text)) return;
    } catch (const std::exception&) {
      // Without memory to count it, it is written.
    }
  }
  below_.write(level, text, fields);
}

bool MessageLogFilter::admits(LogLevel level, std::string_view text) {
  const SteadyTime now = clock_.steady();
  bool is_first_left_out = false;
  {
    const detail::Lock lock(mutex_);
    auto found = kinds_.find(text);
    if (found == kinds_.end()) found = kinds_.emplace(text, Kind{.level = level}).first;
    Kind& kind = found->second;
    if (now >= kind.second_ends) {
      kind.second_ends = now + kSecond;
      kind.written = 0;
    }
    if (kind.written < kLinesPerSecond) {
      ++kind.written;
      return true;
    }
    is_first_left_out = kind.left_out++ == 0;
    // A new second may begin before the teller wakes; this stays.
    if (is_first_left_out) kind.tell_at = kind.second_ends;
  }
  if (is_first_left_out) changed_.notify_one();
  return false;
}

void MessageLogFilter::tell_often() noexcept {
  detail::Lock lock(mutex_);
  for (;;) {
    while (!ends_ && changed_.wait_until(mutex_, next_telling())) continue;
    const bool is_last = ends_;
    const std::vector<LeftOut> all = take_left_out(is_last ? SteadyTime::max() : clock_.steady());
    lock.unlock();
    tell(all);
    if (is_last) return;
    lock.lock();
  }
}

SteadyTime MessageLogFilter::next_telling() const {
  SteadyTime next = SteadyTime::max();
  for (const auto& [text, kind] : kinds_) {
    if (kind.left_out > 0) next = std::min(next, kind.tell_at);
  }
  return next;
}

std::vector<MessageLogFilter::LeftOut> MessageLogFilter::take_left_out(SteadyTime until) noexcept {
  std::vector<LeftOut> all;
  for (auto& [text, kind] : kinds_) {
    if (kind.left_out == 0 || kind.tell_at > until) continue;
    try {
      all.push_back({text, kind.level, kind.left_out});
      kind.left_out = 0;
    } catch (const std::exception&) {
      kind.tell_at = clock_.steady() + kSecond;  // no memory: told later
    }
  }
  return all;
}

void MessageLogFilter::tell(const std::vector<LeftOut>& all) noexcept {
  for (const LeftOut& one : all) {
    below_.log(one.level, "log lines left out; log.messages = \"all\" writes them",
               {{"line", one.text}, {"count", one.count}});
  }
}

}  // namespace oncebox::server
