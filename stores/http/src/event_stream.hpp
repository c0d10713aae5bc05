#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "http_client.hpp"

namespace oncebox::http {

/// Keeps one connection open on which the service tells of work, from its construction to its
/// destruction, and connects again with growing pauses when it is lost.
class EventStream {
 public:
  /// Called on a thread of its own with the queue's name, and with an empty one when any queue may
  /// have work: after every connect, because what happened before was not heard.
  using OnWork = std::function<void(std::string_view queue)>;

  EventStream(HttpClient& client, OnWork on_work);
  ~EventStream() = default;
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

 private:
  class Stream;

  void run(const std::stop_token& stop);

  HttpClient& client_;
  const OnWork on_work_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: it uses everything
};

}  // namespace oncebox::http
