#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "http_client.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/internal/pause.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::http {

/// Keeps one connection open on which the service tells of work, from its construction to its
/// destruction, and connects again with growing pauses when it is lost.
class EventStream {
 public:
  /// Called on the stream's own thread with the queue that has work, and with none when any queue
  /// may have some: after every connect, because what happened before was not heard.
  using OnWork = std::function<void(std::optional<QueueKind> queue)>;

  /// The client and the clock are borrowed.
  EventStream(HttpClient& client, const Clock& clock, OnWork on_work);
  ~EventStream() = default;
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

 private:
  class Stream;

  void run(const std::stop_token& stop);

  HttpClient& client_;
  const OnWork on_work_;
  detail::Pause pause_;
  std::jthread thread_;  // last: it uses everything
};

}  // namespace oncebox::http
