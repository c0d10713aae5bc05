// bench_http_empty PORT [IO_THREADS] [sync | async] [LOG_FILE]
//
// Answers every `POST /v1/messages` with an empty success, at once or from another thread as group
// commits do, and stores nothing: what is left is the cost of HTTP, the ceiling of everything that
// stores. With a file, the access log goes there as JSON. Ends on SIGTERM or SIGINT.

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "http/answers.hpp"
#include "http/http_server.hpp"

namespace {

using namespace oncebox;          // NOLINT(google-build-using-namespace)
using namespace oncebox::server;  // NOLINT(google-build-using-namespace)

class NoObserver final : public HttpObserver {
 public:
  void on_request(const Answered&) noexcept override {}
  void on_connections(std::ptrdiff_t) noexcept override {}
  void on_refused_connection() noexcept override {}
};

/// One thread that answers all that gathered while it answered the last ones.
class Answerer {
 public:
  void push(ExchangePtr exchange) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(exchange));
    if (waiting_.size() == 1) changed_.notify_one();
  }

 private:
  void run(const std::stop_token& stop) {
    std::vector<ExchangePtr> batch;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
        batch.swap(waiting_);
      }
      for (const auto& exchange : batch) exchange->send(json_response(R"({"ok":true})"));
      batch.clear();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<ExchangePtr> waiting_;
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: bench_http_empty PORT [IO_THREADS] [sync | async] [LOG_FILE]\n";
    return 64;
  }
  // Blocked before there are threads, so that none of them takes the signal.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  ServerOptions options;
  options.listen.port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  if (argc > 2) options.io_threads = static_cast<std::size_t>(std::atoi(argv[2]));
  const bool is_async = argc > 3 && std::string_view(argv[3]) == "async";

  const SystemClock clock;
  NullLogger no_log;
  std::ofstream log_file;
  std::optional<JsonLogger> json_log;
  options.access_log = AccessLog::off;
  if (argc > 4) {
    log_file.open(argv[4], std::ios::app);
    json_log.emplace(log_file, clock, LogOptions{.flush_interval = Duration{100}});
    options.access_log = AccessLog::all;
  }
  Logger& logger = json_log ? static_cast<Logger&>(*json_log) : no_log;

  Answerer answerer;
  Router router;
  router.add({.method = Method::post,
              .pattern = "/v1/messages",
              .scope = Scope::produce,
              .handler = [&](const ExchangePtr& exchange) {
                if (is_async) {
                  answerer.push(exchange);
                } else {
                  exchange->send(json_response(R"({"ok":true})"));
                }
              }});
  const Authenticator authenticator(options.auth, logger);
  NoObserver observer;
  HttpServer server(options, router, authenticator, logger, observer);
  server.start();
  std::cout << "listening on port " << server.port() << std::endl;
  int signal = 0;
  sigwait(&ends, &signal);
  return server.stop(std::chrono::seconds{5}) == 0 ? 0 : 1;
}
