#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "connection_pool.hpp"

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
  Listener(ConnectionPool& pool, std::vector<Channel> channels, std::string own_text);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  void run(const std::stop_token& stop);
  void listen_once(const std::stop_token& stop);
  void listen_on(Connection& connection, const std::stop_token& stop);
  void tell_all() const;
  void pause(std::chrono::milliseconds time) const;

  ConnectionPool& pool_;  ///< whose budget the connection counts in
  const std::vector<Channel> channels_;
  const std::string own_text_;
  const int wake_fd_;
  std::jthread thread_;  // last: uses the members above
};

}  // namespace oncebox::postgresql
