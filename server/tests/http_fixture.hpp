#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "http/http_server.hpp"
#include "oncebox/log.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "raw_client.hpp"

namespace oncebox::server {

/// What came in, for those who wait for it.
template <class Item>
class Arrivals {
 public:
  void add(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
  /// The item of this number, from 0. Throws when it does not come.
  Item wait(std::size_t number = 0) {
    std::unique_lock lock(mutex_);
    const bool came =
        changed_.wait_for(lock, std::chrono::seconds{60}, [&] { return items_.size() > number; });
    if (!came) throw std::runtime_error("it did not come");
    return items_[number];
  }
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }
  void clear() {
    std::vector<Item> gone;
    const std::lock_guard lock(mutex_);
    gone.swap(items_);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> items_;
};

/// Keeps its lines, as text.
class KeepingLogger final : public Logger {
 public:
  [[nodiscard]] bool enabled(LogLevel) const noexcept override { return true; }
  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept override;

  Arrivals<std::string> lines;
};

class CountingObserver final : public HttpObserver {
 public:
  struct Seen {
    std::string method;
    std::string route;
    int status;
    std::size_t bytes_in;
    std::size_t bytes_out;
  };

  void on_request(const Answered& answered) noexcept override;
  void on_connections(std::ptrdiff_t change) noexcept override;
  void on_refused_connection() noexcept override { refused.add(1); }
  void on_ended_connection(std::string_view want) noexcept override {
    ended.add(std::string(want));
  }

  /// Waits until so many connections are open.
  void wait_for_connections(std::ptrdiff_t count);
  [[nodiscard]] std::ptrdiff_t connections() const;

  /// Called by the loop's thread once a socket is closed, before anything else happens.
  std::function<void()> when_one_closes = [] {};
  Arrivals<Seen> requests;
  Arrivals<int> refused;
  Arrivals<std::string> ended;  ///< by what others wanted

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::ptrdiff_t connections_ = 0;
};

/// A thread that answers what it is given, as group commits do.
class AnswerThread {
 public:
  void push(ExchangePtr exchange);

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<ExchangePtr> waiting_;
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};
};

/// Takes a streamed body, and asks for more at once or when it is told to.
class KeepingSink final : public BodySink {
 public:
  void on_data(std::string piece, std::function<void()> more) override;
  void on_end() override { ended.add(1); }
  void on_broken() noexcept override { broken.add(1); }

  bool is_patient = false;  ///< waits for the test to call `mores`
  Arrivals<std::string> pieces;
  Arrivals<std::function<void()>> mores;
  Arrivals<int> ended;
  Arrivals<int> broken;
};

/// A server with small routes:
/// `GET /hello`, `POST /echo`, `POST /later` (echo from another thread), `GET /held` and
/// `POST /held` (the test answers), `GET /dropped`, `GET /throws/{what}`, `GET /request/{a}/{b*}`,
/// `POST /streamed` (body to `sink`, held), `GET /events` (a stream, to `streams`),
/// `GET /large/{bytes}`, and `POST /v1/{scope}` for each scope.
class HttpTest : public ::testing::Test {
 protected:
  HttpTest();
  ~HttpTest() override;

  /// With `options` as they are then.
  HttpServer& start();
  [[nodiscard]] RawClient connect() { return RawClient(server_->port()); }
  /// Moves time on in small steps until the server has sent something or has closed the connection.
  /// Between two steps the server has time to look at its deadlines.
  void move_time_until_news(const RawClient& client);

  ServerOptions options;
  KeepingLogger logger;
  testing::ManualClock clock;
  CountingObserver observer;
  Arrivals<ExchangePtr> held;
  Arrivals<std::shared_ptr<ResponseStream>> streams;
  std::shared_ptr<KeepingSink> sink = std::make_shared<KeepingSink>();
  std::optional<Authenticator> authenticator;
  Router router;

 private:
  AnswerThread answers_;

 protected:
  std::optional<HttpServer> server_;
};

/// `METHOD PATH HTTP/1.1` with Host, these field lines, and a body with its length.
[[nodiscard]] std::string request_text(std::string_view method, std::string_view path,
                                       std::string_view body = {}, std::string_view fields = {});
[[nodiscard]] inline std::string get_text(std::string_view path, std::string_view fields = {}) {
  return request_text("GET", path, {}, fields);
}

/// The code of a problem.
[[nodiscard]] std::string code_of(const RawResponse& response);

}  // namespace oncebox::server
