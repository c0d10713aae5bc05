#include "store_openings.hpp"

#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "oncebox/engine/exception_text.hpp"
#include "oncebox/error.hpp"

namespace oncebox {

namespace {

/// Files and stores in memory have no server in common that could be silent.
bool names_a_host(const std::string& server) { return server.find("://") != std::string::npos; }

std::string copy_of(const std::string& text) noexcept {
  try {
    return text;
  } catch (const std::bad_alloc&) {
    return "no memory";  // short enough to need none
  }
}

bool may_be_silence(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::timeout;
}

}  // namespace

// The stores of a server share a lane, so nothing is to be kept for others of it.
StoreOpenings::StoreOpenings(OpenStore open, OnEnd on_end, const Options& options,
                             const Clock& clock)
    : open_(std::move(open)),
      on_end_(std::move(on_end)),
      options_(options),
      clock_(clock),
      calls_({.limits = {.per_server = options.threads, .in_all = options.threads},
              .threads = options.threads,
              .threads_kept = 1},
             clock) {}

StoreOpenings::~StoreOpenings() { stop(); }

void StoreOpenings::add(std::vector<Opening> openings) {
  std::size_t left = 0;  // so many of the first have not been added
  {
    const detail::Lock lock(mutex_);
    if (is_stopping_) return;
    // In one step: what one attempt tells of a server holds for all of its stores that wait.
    for (Opening& opening : openings) {
      if (!add(opening)) std::swap(openings[left++], opening);
    }
  }
  for (std::size_t i = 0; i < left; ++i) {
    on_end_(openings[i], {.failure = "no memory", .was_tried = false});
  }
}

bool StoreOpenings::add(Opening& opening) {
  try {
    Server& server = server_of(opening.server);
    server.waiting.push_back(std::move(opening));
    server.lane.want();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

StoreOpenings::Server& StoreOpenings::server_of(const std::string& name) {
  const auto [place, is_new] = servers_.try_emplace(name);
  if (!is_new) return place->second;
  try {
    place->second.lane =
        calls_.add({.server = name,
                    .run =
                        [this, name](engine::CallKind) {
                          try_next(name);
                          return engine::CallEnded{.store = engine::CallEnded::Store::unknown};
                        },
                    .width = options_.threads});
    return place->second;
  } catch (...) {
    servers_.erase(place);
    throw;
  }
}

void StoreOpenings::cancel() {
  std::list<Opening> dropped;
  const detail::Lock lock(mutex_);
  is_stopping_ = true;
  for (auto& [name, server] : servers_) dropped.splice(dropped.end(), server.waiting);
}

void StoreOpenings::stop() {
  cancel();
  calls_.stop();
}

void StoreOpenings::try_next(const std::string& name) {
  std::list<Opening> next;
  {
    const detail::Lock lock(mutex_);
    const auto found = servers_.find(name);
    if (found == servers_.end() || found->second.waiting.empty()) return;
    Server& server = found->second;
    next.splice(next.end(), server.waiting, server.waiting.begin());
    ++server.attempts;
    if (!server.waiting.empty()) server.lane.want();  // beside this one, if there is room
  }
  attempt(next.front());
}

void StoreOpenings::attempt(const Opening& opening) {
  const SteadyTime began = clock_.steady();
  Opened opened;
  bool is_silent = false;
  try {
    opened.store = open_(opening.location);
    if (!opened.store) opened.failure = "the function that opens stores returned none";
  } catch (const Error& error) {
    opened.failure = detail::current_exception_text();
    is_silent = may_be_silence(error.code()) && names_a_host(opening.server) &&
                clock_.steady() - began >= options_.slow_open;
  } catch (...) {
    opened.failure = detail::current_exception_text();
  }
  const std::string failure = copy_of(opened.failure);
  // Before anybody hears of it: what is asked for then is not answered by this attempt.
  const std::list<Opening> failed = conclude(opening.server, is_silent);
  on_end_(opening, std::move(opened));
  for (const Opening& same : failed) {
    on_end_(same, {.failure = copy_of(failure), .was_tried = false});
  }
}

std::list<Opening> StoreOpenings::conclude(const std::string& name, bool is_silent) {
  std::list<Opening> failed;
  const detail::Lock lock(mutex_);
  const auto found = servers_.find(name);
  Server& server = found->second;
  server.lane.set_width(is_silent ? 1 : options_.threads);
  if (is_silent) failed.swap(server.waiting);
  if (--server.attempts == 0 && !is_silent && server.waiting.empty()) servers_.erase(found);
  return failed;
}

}  // namespace oncebox
