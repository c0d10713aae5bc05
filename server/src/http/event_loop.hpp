#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"

namespace boost::asio {
class io_context;
}

namespace oncebox::server {

class Connection;
class HttpExchange;

/// One thread and the connections that it serves. A connection stays with its loop for life and is
/// touched by no other thread, so that it needs neither locks nor strands.
class EventLoop {
 public:
  /// Deadlines are looked at once in each interval.
  explicit EventLoop(std::chrono::milliseconds tick);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void start();
  /// Closes every connection and ends the thread. What is posted later is dropped.
  void stop() noexcept;

  [[nodiscard]] boost::asio::io_context& context() noexcept;
  /// Whether the caller runs in the loop's thread.
  [[nodiscard]] bool is_here() const noexcept;

  /// Runs a task in the loop's thread. Safe from any thread. Posts nothing when it throws, for lack
  /// of memory.
  void post(std::function<void()> task);
  /// Has the loop send an answer that the exchange holds. Safe from any thread, and cheap: answers
  /// that come together wake the loop once.
  void post_answer(std::shared_ptr<HttpExchange> exchange);

  // The rest is for the loop's own thread.

  using Connections = std::list<Connection*>;
  /// Adds the connection that is the only entry of this list. The entry is moved, so its iterator
  /// stays valid and nothing can fail.
  void add(Connections& one) noexcept;
  void remove(Connections::iterator position) noexcept;
  /// Calls it for every connection; each may be removed in its own call.
  void for_each(const std::function<void(Connection&)>& call);

  /// In the order in which they came.
  [[nodiscard]] const Connections& connections() const noexcept { return connections_; }
  /// Told by a connection that is looked at: its client holds a lot of memory, which is short, and
  /// has not gone on since then. When all are looked at, the slowest go until there is enough.
  void note_stalled(Connection& connection, SteadyTime since) noexcept;

  /// The time as the field Date has it.
  [[nodiscard]] std::string_view http_date();

 private:
  class Impl;

  void end() noexcept;
  void wake() noexcept ONCEBOX_REQUIRES(mutex_);
  void run_posted();
  void on_tick();
  void end_slowest();
  void close_all();

  const std::chrono::milliseconds tick_;
  std::unique_ptr<Impl> impl_;
  Connections connections_;
  struct Stalled {
    SteadyTime since;
    Connection* connection;
  };
  std::vector<Stalled> stalled_;
  bool has_ended_ = false;
  std::chrono::sys_seconds date_second_{};
  std::string date_;

  detail::Mutex mutex_;
  std::vector<std::shared_ptr<HttpExchange>> answers_ ONCEBOX_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> tasks_ ONCEBOX_GUARDED_BY(mutex_);
  bool is_woken_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool is_ending_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ONCEBOX_GUARDED_BY(mutex_) = false;

  std::jthread thread_;
};

}  // namespace oncebox::server
