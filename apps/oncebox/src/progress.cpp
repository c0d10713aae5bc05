#include "progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "printable.hpp"
#include "record_view.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kBarColumns = 30;

std::string bar(std::uint64_t done, std::uint64_t total) {
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const auto filled = std::min(kBarColumns, static_cast<std::size_t>(share * kBarColumns));
  return fmt::format("[{}{}] {:3.0f} %  ", std::string(filled, '#'),
                     std::string(kBarColumns - filled, '.'), std::min(share, 1.0) * 100);
}

}  // namespace

Progress::~Progress() {
  if (!drawn_) return;
  try {
    out_.write("\r\x1b[K");
    out_.flush();
  } catch (...) {
    // Nobody looks any more.
  }
}

void Progress::show(const State& state) {
  if (!out_.is_terminal()) return;
  const Clock::time_point now = Clock::now();
  if (drawn_ && now - *drawn_ < std::chrono::milliseconds{100}) return;
  drawn_ = now;
  const double seconds = std::max(0.001, std::chrono::duration<double>(now - started_).count());
  std::string line = state.total_bytes ? bar(state.bytes, *state.total_bytes) : std::string();
  line +=
      fmt::format("{} messages, {} per second", grouped(state.messages),
                  grouped(static_cast<std::size_t>(static_cast<double>(state.messages) / seconds)));
  out_.write("\r" + fitted(line, out_.columns() - 1) + "\x1b[K");
  out_.flush();
}

}  // namespace oncebox::app
