#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "connection_pool.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/internal/pause.hpp"

namespace oncebox::postgresql {

/// Hears what other processes announce, on a connection and a thread of its own. When the
/// connection is lost it is made anew, and everybody is told, because something may have been
/// missed.
class Listener {
 public:
  struct Channel {
    std::string name;
    std::function<void()> on_announcement;  ///< must not throw
  };

  /// `own_text` is what this process says itself, and need not hear.
  /// The pool and the clock are borrowed; by the clock a lost connection is made anew.
  Listener(ConnectionPool& pool, const Clock& clock, std::vector<Channel> channels,
           std::string own_text);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  void run(const std::stop_token& stop);
  void listen_once(const std::stop_token& stop);
  void listen_on(Connection& connection, const std::stop_token& stop);
  void tell_all() const;

  ConnectionPool& pool_;  ///< whose budget the connection counts in
  const std::vector<Channel> channels_;
  const std::string own_text_;
  const int wake_fd_;  ///< ends what waits for announcements
  const Clock& clock_;
  detail::Pause pause_;
  std::jthread thread_;  // last: uses the members above
};

}  // namespace oncebox::postgresql
