#include "idle_watch.hpp"

#include <algorithm>

#include "oncebox/limits.hpp"

namespace oncebox::dispatcher {

class IdleWatch::Waiting {
 public:
  explicit Waiting(std::atomic<std::size_t>& count) : count_(count) { ++count_; }
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::atomic<std::size_t>& count_;
};

void IdleWatch::note_change() noexcept {
  {
    const detail::Lock lock(mutex_);
    ++changes_;
  }
  changed_.notify_all();
}

void IdleWatch::end() noexcept {
  {
    const detail::Lock lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_all();
}

// What came while a look was under way was in flight, or still is: then only a new look tells.
bool IdleWatch::is_idle(WorkReport& work, std::optional<Look>& look, Duration due_within) {
  const bool has_found_nothing = look && work.has_found_nothing(look->number, due_within);
  const std::uint64_t admitted = work.admitted();
  if (work.in_flight() > 0) return false;
  const bool is_new = !look || look->admitted != admitted;
  if (is_new) look = {work.ask_to_look(), admitted};
  return has_found_nothing && !is_new;
}

bool IdleWatch::wait(WorkReport& work, const IdleOptions& options) {
  const Duration timeout =
      std::clamp(options.timeout.value_or(limits::kMaxDelay), Duration{0}, limits::kMaxDelay);
  const SteadyTime deadline = options.timeout ? clock_.steady() + timeout : SteadyTime::max();
  const Waiting waiting(waiting_);
  const detail::NotifyOnStop notify(options.stop, mutex_, changed_);
  std::optional<Look> look;
  std::uint64_t seen = 0;
  bool in_time = true;
  for (;;) {
    {
      const detail::Lock lock(mutex_);
      if (has_ended_) return false;
      seen = changes_;
    }
    if (is_idle(work, look, options.due_within)) return true;
    const detail::Lock lock(mutex_);
    while (changes_ == seen && !has_ended_ && !options.stop.stop_requested() && in_time) {
      in_time = changed_.wait_until(mutex_, deadline);
    }
    if (options.stop.stop_requested() || !in_time) return false;
  }
}

}  // namespace oncebox::dispatcher
