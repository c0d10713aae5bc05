// What publishing to endpoints costs, and what endpoints that hang cost the others.
//
// One endpoint: deliveries that wait on SQLite (WAL, synchronous = FULL) are sent to a receiver in
// this process, one message in a request, signed, and each acceptance is recorded durably; against
// libcurl alone, which posts the same bodies to the same receiver over as many connections and
// records nothing. Rates are medians of rounds by turns, with payloads of 200 bytes.
//
// A thousand endpoints in memory, each gets a message now and then: how long from the call of
// enqueue to the receiver, with none that hangs, and when a hundred of them never answer.

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench_dispatcher.hpp"
#include "bench_folder.hpp"
#include "bench_receiver.hpp"
#include "figure.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/publishing.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"

namespace oncebox::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kDeliveries = 20'000;
constexpr std::size_t kRounds = 5;
constexpr std::size_t kConnections = 16;
constexpr std::size_t kPayloadBytes = 200;

constexpr std::size_t kEndpoints = 1'000;
constexpr std::size_t kHanging = 100;
constexpr auto kSendFor = 10s;
constexpr auto kPause = 5ms;  // between two messages

// libcurl alone ---------------------------------------------------------------------------------

class PlainPosts {
 public:
  explicit PlainPosts(std::string url) : url_(std::move(url)) {
    for (std::size_t i = 0; i < kConnections; ++i) idle_.push_back(new_handle());
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(kConnections));
  }

  void post(std::size_t count) {
    std::size_t left = count;
    int running = 0;
    do {
      for (; left > 0 && !idle_.empty(); --left) {
        curl_multi_add_handle(multi_.get(), idle_.back());
        idle_.pop_back();
      }
      curl_multi_perform(multi_.get(), &running);
      if (!take_answers()) curl_multi_poll(multi_.get(), nullptr, 0, 1'000, nullptr);
    } while (left > 0 || idle_.size() < kConnections);
  }

  ~PlainPosts() {
    for (CURL* handle : idle_) curl_easy_cleanup(handle);
  }
  PlainPosts(const PlainPosts&) = delete;
  PlainPosts& operator=(const PlainPosts&) = delete;

 private:
  [[nodiscard]] CURL* new_handle() const {
    CURL* const handle = curl_easy_init();
    curl_easy_setopt(handle, CURLOPT_URL, url_.c_str());
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, fields_.get());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body_.data());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(body_.size()));
    return handle;
  }
  bool take_answers() {
    int left = 0;
    bool any = false;
    while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->data.result != CURLE_OK) throw std::runtime_error("libcurl could not post");
      CURL* const handle = message->easy_handle;
      curl_multi_remove_handle(multi_.get(), handle);
      idle_.push_back(handle);
      any = true;
    }
    return any;
  }

  struct Free {
    void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  const std::string url_;
  const std::string body_ = body_now(kPayloadBytes);
  const std::unique_ptr<curl_slist, Free> fields_{
      curl_slist_append(curl_slist_append(nullptr, "Content-Type: application/json"), "Expect:")};
  const std::unique_ptr<CURLM, Free> multi_{curl_multi_init()};
  std::vector<CURL*> idle_;
};

double post_plainly(BenchReceiver& receiver) {
  PlainPosts posts(receiver.url() + "/hook");
  posts.post(kConnections);  // they are connected
  return measure([&] {
    posts.post(kDeliveries);
    return kDeliveries;
  });
}

// Endpoints -------------------------------------------------------------------------------------

void add_endpoint(Store& store, const std::string& name, const std::string& url,
                  const TopicPolicyChange& rule = {}) {
  publish::save_endpoint(store,
                         {.name = EndpointName(name),
                          .url = url,
                          .topics = {TopicPattern(name)},
                          .secrets = {{"literal:whsec_YS1zZWNyZXQtb2YtMjQtYnl0ZXMh"}},
                          .allow_private = true},
                         rule);
}

void send(Store& store, const std::string& topic, std::size_t id) {
  store.outbox().enqueue({.key = {"bench", MessageId(std::to_string(id))},
                          .topic = Topic(topic),
                          .payload = body_now(kPayloadBytes)});
}

void wait_for(const publish::Publishing& publishing, auto count) {
  while (count(publishing.stats()) < kDeliveries) std::this_thread::sleep_for(1ms);
}

double publish_durably(BenchReceiver& receiver) {
  BenchFolder folder;
  sqlite::SqliteStore store({.path = folder.new_file()});
  const TopicPattern topic("crm");
  add_endpoint(store, "crm", receiver.url() + "/hook",
               {.limits = {.max_concurrency = 1'000}, .paused = true});
  for (std::size_t id = 0; id < kDeliveries;) {
    std::vector<Message> messages;
    for (std::size_t i = 0; i < 1'000; ++i, ++id) {
      messages.push_back({.key = {"bench", MessageId(std::to_string(id))},
                          .topic = "crm",
                          .payload = body_now(kPayloadBytes)});
    }
    store.outbox().enqueue(messages);
  }
  publish::PublishingOptions options;
  options.deliveries.workers = 2;
  options.deliveries.batch_size = 500;
  const SystemClock& clock = SystemClock::shared();
  publish::Publishing publishing(
      store,
      publish::standard_publishers({.client = {.max_connections_per_host = kConnections}}, clock),
      options);
  publishing.start();
  wait_for(publishing, [](const auto& stats) { return stats.fan_out.handled; });
  return measure([&] {
    store.policies().update(QueueKind::deliveries, topic, {.paused = false});
    publishing.wake();
    wait_for(publishing, [](const auto& stats) { return stats.deliveries.handled; });
    return kDeliveries;
  });
}

/// The delays of messages to endpoints that answer.
Quantiles delays(std::size_t hanging) {
  BenchReceiver receiver;
  memory::MemoryStore store;
  for (std::size_t i = 0; i < kEndpoints; ++i) {
    const std::string name = "e" + std::to_string(i);
    add_endpoint(store, name, receiver.url() + (i < hanging ? "/hang/" : "/hook/") + name);
  }
  publish::Publishing publishing(store);
  publishing.start();
  const auto until = std::chrono::steady_clock::now() + kSendFor;
  std::size_t answered = 0;
  for (std::size_t id = 0; std::chrono::steady_clock::now() < until; ++id) {
    // Those that hang get one message after the other, too, until they may have no more.
    const std::size_t endpoint = id * 7 % kEndpoints;
    if (endpoint >= hanging) ++answered;
    send(store, "e" + std::to_string(endpoint), id);
    std::this_thread::sleep_for(kPause);
  }
  Times times = receiver.take_delays_us();
  for (int tries = 0; tries < 100 && times.size() < answered; ++tries) {
    std::this_thread::sleep_for(100ms);
    const Times more = receiver.take_delays_us();
    times.insert(times.end(), more.begin(), more.end());
  }
  if (times.size() < answered) {
    throw std::runtime_error("the endpoints that answer did not get everything");
  }
  (void)publishing.stop({.finish_within = 0ms});
  return quantiles_of(times);
}

void measure_rates(Report& report) {
  BenchReceiver receiver;
  std::vector<double> plain;
  std::vector<double> published;
  for (std::size_t round = 0; round < kRounds; ++round) {
    // Another one begins each time, so that what a round does to the disk favours nobody.
    if (round % 2 == 0) plain.push_back(post_plainly(receiver));
    published.push_back(publish_durably(receiver));
    if (round % 2 != 0) plain.push_back(post_plainly(receiver));
    (void)receiver.take_delays_us();
  }
  const std::string base = "publish/libcurl-alone/connections=16";
  report.add(base, median(plain));
  report.add("publish/deliveries/sqlite/connections=16", median(published), base);
}

void measure_delays(Report& report) {
  struct Case {
    std::size_t hanging;
    std::string name;
    std::vector<double> p50_us = {};
    std::vector<double> p99_us = {};
  };
  std::vector<Case> cases{{0, "none-hangs"}, {kHanging, "100-hang"}};
  for (std::size_t round = 0; round < 3; ++round) {
    for (Case& one : cases) {
      const Quantiles found = delays(one.hanging);
      one.p50_us.push_back(found.p50_us);
      one.p99_us.push_back(found.p99_us);
    }
  }
  const std::string bench = "publish/delay/1000-endpoints/";
  for (const Case& one : cases) {
    report.add_time(bench + one.name + "/p50", median(one.p50_us));
    report.add_time(bench + one.name + "/p99", median(one.p99_us));
  }
  report.add_count(bench + "100-hang/p99-against-none",
                   median(cases[1].p99_us) / median(cases[0].p99_us), "times");
}

}  // namespace
}  // namespace oncebox::bench

int main(int argc, char** argv) {
  using namespace oncebox::bench;
  const std::string_view only = argc > 1 ? argv[1] : "";
  Report report;
  if (only.empty() || only == "rates") measure_rates(report);
  if (only.empty() || only == "delays") measure_delays(report);
  report.print_json();
}
