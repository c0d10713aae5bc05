#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

namespace oncebox::bench {

/// A receiver of webhooks on this machine that does as little as it can: one thread reads requests
/// and answers each with 200 and no body, but those below `/hang/`, which get no answer.
class BenchReceiver {
 public:
  BenchReceiver();
  ~BenchReceiver();
  BenchReceiver(const BenchReceiver&) = delete;
  BenchReceiver& operator=(const BenchReceiver&) = delete;

  [[nodiscard]] std::string url() const;
  /// How long after the time that stands at the beginning of their bodies, in microseconds of the
  /// steady clock, requests that were answered have come; and forgets them.
  [[nodiscard]] std::vector<double> take_delays_us();

 private:
  struct Connection {
    int fd;
    std::string bytes = {};
  };

  void run();
  void read_from(Connection& connection);
  /// Answers what is whole, and forgets it.
  void answer(Connection& connection);
  void note(std::string_view body);

  const int listener_;
  const int wake_;
  const int epoll_;
  std::unordered_set<Connection*> connections_;
  std::mutex mutex_;
  std::vector<double> delays_us_;
  std::thread thread_;
};

/// The time now, as it stands in bodies.
[[nodiscard]] std::string body_now(std::size_t bytes);

}  // namespace oncebox::bench
