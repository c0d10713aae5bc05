#include "store_openings.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>

#include "oncebox/engine/exception_text.hpp"
#include "oncebox/error.hpp"

namespace oncebox {

namespace {

/// Files and stores in memory have no server in common that could be silent.
bool names_a_host(const std::string& server) { return server.find("://") != std::string::npos; }

bool may_be_silence(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::timeout;
}

}  // namespace

StoreOpenings::StoreOpenings(OpenStore open, OnEnd on_end, const Options& options)
    : open_(std::move(open)), on_end_(std::move(on_end)), options_(options) {
  slots_.resize(options.threads);
}

StoreOpenings::~StoreOpenings() { stop(); }

void StoreOpenings::add(std::vector<Opening> openings) {
  Slot here;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    waiting_.insert(waiting_.end(), std::make_move_iterator(openings.begin()),
                    std::make_move_iterator(openings.end()));
    if (start_thread() || std::ranges::any_of(slots_, &Slot::is_running)) return;
  }
  run(here);
}

void StoreOpenings::cancel() {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  waiting_.clear();
}

void StoreOpenings::stop() {
  cancel();
  for (Slot& slot : slots_) {
    if (slot.thread.joinable()) slot.thread.join();
  }
}

std::deque<Opening>::iterator StoreOpenings::next() {
  return std::ranges::find_if(waiting_, [this](const Opening& opening) {
    const auto server = servers_.find(opening.server);
    return server == servers_.end() || !server->second.is_silent || server->second.attempts == 0;
  });
}

bool StoreOpenings::start_thread() {
  if (next() == waiting_.end()) return true;
  const auto free = std::ranges::find_if(slots_, [](const Slot& slot) { return !slot.is_running; });
  if (free == slots_.end()) return true;
  try {
    // The one before has left the lock for good: it is joined at once.
    free->thread = std::jthread([this, &slot = *free] { run(slot); });
    free->is_running = true;
    return true;
  } catch (const std::exception&) {
    return false;  // no thread, or no memory for one
  }
}

void StoreOpenings::run(Slot& slot) {
  for (;;) {
    std::optional<Opening> opening;
    {
      const std::lock_guard lock(mutex_);
      const auto found = next();
      if (found == waiting_.end()) {
        slot.is_running = false;
        return;
      }
      opening = std::move(*found);
      waiting_.erase(found);
      ++servers_[opening->server].attempts;
      (void)start_thread();  // this one goes on anyway
    }
    attempt(*opening);
  }
}

void StoreOpenings::attempt(const Opening& opening) {
  const auto began = std::chrono::steady_clock::now();
  Opened opened;
  bool is_silent = false;
  try {
    opened.store = open_(opening.location);
    if (!opened.store) opened.failure = "what opens stores gave none";
  } catch (const Error& error) {
    opened.failure = error.what();
    is_silent = may_be_silence(error.code()) && names_a_host(opening.server) &&
                std::chrono::steady_clock::now() - began >= options_.slow_open;
  } catch (...) {
    opened.failure = detail::current_exception_text();
  }
  const std::string failure = opened.failure;
  // Before anybody hears of it: what is asked for then is not answered by this attempt.
  const std::vector<Opening> failed = conclude(opening.server, is_silent);
  on_end_(opening, std::move(opened));
  for (const Opening& same : failed) on_end_(same, {.failure = failure, .was_tried = false});
}

std::vector<Opening> StoreOpenings::conclude(const std::string& name, bool is_silent) {
  std::vector<Opening> failed;
  const std::lock_guard lock(mutex_);
  const auto server = servers_.find(name);
  server->second.is_silent = is_silent;
  if (--server->second.attempts == 0 && !is_silent) servers_.erase(server);
  if (!is_silent) return failed;
  std::deque<Opening> others;
  for (Opening& opening : waiting_) {
    if (opening.server == name) {
      failed.push_back(std::move(opening));
    } else {
      others.push_back(std::move(opening));
    }
  }
  waiting_.swap(others);
  return failed;
}

}  // namespace oncebox
