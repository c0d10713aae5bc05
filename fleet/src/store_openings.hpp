#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/fleet/store_set.hpp"

namespace oncebox {

/// A store to be opened.
struct Opening {
  StoreLocation location;
  std::string server;    ///< see `database_server`
  std::uint64_t id = 0;  ///< for who asked
};

/// How that ended: a store, or why there is none.
struct Opened {
  std::unique_ptr<Store> store = {};
  std::string failure = {};
  bool was_tried = true;  ///< else another store of its server was, for all of them
};

/// Opens stores on a few threads, which start when they are needed and end when they are not.
///
/// A server that does not answer takes up a thread for as long as a connection may take, for each
/// of its stores, while others wait. So when an attempt ends as `unavailable` or `timeout` only
/// after a while, all stores of that server that wait fail with it, and from then on one at a time
/// is tried there, until one can be opened. Failures that come quickly keep nobody waiting, and
/// concern one store. Safe from any thread.
class StoreOpenings {
 public:
  /// Called with each result, by any thread; several at once.
  using OnEnd = std::function<void(const Opening& opening, Opened opened)>;
  struct Options {
    std::size_t threads;
    Duration slow_open;
  };

  StoreOpenings(OpenStore open, OnEnd on_end, const Options& options);
  ~StoreOpenings();
  StoreOpenings(const StoreOpenings&) = delete;
  StoreOpenings& operator=(const StoreOpenings&) = delete;

  /// Tries these, in this order as far as it goes. Does not wait for them, unless there is no
  /// thread to be had.
  void add(std::vector<Opening> openings);
  /// No further attempt begins.
  void cancel();
  /// The same, and waits for the attempts under way.
  void stop();

 private:
  struct Server {
    bool is_silent = false;  ///< the last attempt found that it does not answer
    std::size_t attempts = 0;
  };
  struct Slot {
    bool is_running = false;
    std::jthread thread = {};
  };

  void run(Slot& slot);
  /// Starts one more thread if there is something for it; false when that is not possible.
  bool start_thread();
  [[nodiscard]] std::deque<Opening>::iterator next();
  void attempt(const Opening& opening);
  /// Notes the end of an attempt, and takes out those that fail with it.
  std::vector<Opening> conclude(const std::string& server, bool is_silent);

  const OpenStore open_;
  const OnEnd on_end_;
  const Options options_;

  std::mutex mutex_;
  std::deque<Opening> waiting_;
  std::map<std::string, Server> servers_;  // those with attempts under way, or silent
  bool is_stopping_ = false;
  std::vector<Slot> slots_;  // last: their threads use the members above
};

}  // namespace oncebox
