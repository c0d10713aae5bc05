#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/engine/store_calls.hpp"
#include "oncebox/fleet/store_set.hpp"

namespace oncebox {

/// A store to be opened.
struct Opening {
  StoreLocation location;
  std::string server;    ///< see `database_server`
  std::uint64_t id = 0;  ///< given back with the answer
};

/// How that ended: a store, or why there is none.
struct Opened {
  std::unique_ptr<Store> store = {};
  std::string failure = {};
  bool was_tried = true;  ///< else another store of its server was, for all of them
};

/// Opens stores on a few threads.
///
/// A server that does not answer takes up a thread for as long as a connection may take, for each
/// of its stores, while others wait. So when an attempt ends as `unavailable` or `timeout` only
/// after a while, all stores of that server that wait fail with it, and from then on one at a time
/// is tried there, until one can be opened. Failures that come quickly keep nobody waiting, and
/// concern one store. Safe from any thread.
class StoreOpenings {
 public:
  /// Called with each result, by any thread; several at once. Does not throw.
  using OnEnd = std::function<void(const Opening& opening, Opened opened)>;
  struct Options {
    std::size_t threads;
    Duration slow_open;
  };

  /// The clock is borrowed. Throws when there is no thread to be had.
  StoreOpenings(OpenStore open, OnEnd on_end, const Options& options, const Clock& clock);
  ~StoreOpenings();
  StoreOpenings(const StoreOpenings&) = delete;
  StoreOpenings& operator=(const StoreOpenings&) = delete;

  /// Tries these. Servers take turns, and the stores of each are tried in this order. Does not wait
  /// for them.
  void add(std::vector<Opening> openings);
  /// No further attempt begins.
  void cancel();
  /// The same, and waits for the attempts under way.
  void stop();

 private:
  /// There while stores of it wait or are tried, or it is silent.
  struct Server {
    std::list<Opening> waiting = {};
    std::size_t attempts = 0;
    engine::StoreCalls::Lane lane = {};
  };

  /// False for lack of memory; then it is as it was.
  bool add(Opening& opening) ONCEBOX_REQUIRES(mutex_);
  Server& server_of(const std::string& name) ONCEBOX_REQUIRES(mutex_);
  void try_next(const std::string& server);
  void attempt(const Opening& opening);
  /// Notes the end of an attempt, and takes out those that fail with it.
  [[nodiscard]] std::list<Opening> conclude(const std::string& server, bool is_silent);

  const OpenStore open_;
  const OnEnd on_end_;
  const Options options_;
  const Clock& clock_;

  detail::Mutex mutex_;
  std::map<std::string, Server> servers_ ONCEBOX_GUARDED_BY(mutex_);
  bool is_stopping_ ONCEBOX_GUARDED_BY(mutex_) = false;
  engine::StoreCalls calls_;  // last: its threads use the members above
};

}  // namespace oncebox
