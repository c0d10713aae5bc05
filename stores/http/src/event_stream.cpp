#include "event_stream.hpp"

#include <boost/json.hpp>
#include <chrono>
#include <stop_token>

#include "curl_setup.hpp"
#include "event_parser.hpp"
#include "oncebox/internal/backoff.hpp"

namespace oncebox::http {

namespace {

namespace json = boost::json;

constexpr long kStreamBegins = 200;
constexpr long kTokenRefused = 401;
constexpr Duration kFirstPause{100};
constexpr Duration kLongestPause = std::chrono::seconds{10};
// The service sends something every 15 seconds. A connection that is silent for longer is dead.
constexpr long kSilentSeconds = 40;
constexpr int kPollMs = 1'000;

}  // namespace

/// One connection, from the request to its end.
class EventStream::Stream {
 public:
  Stream(HttpClient& client, std::string store, const OnWork& on_work)
      : client_(client),
        store_(std::move(store)),
        on_work_(on_work),
        authorization_(client.authorization()),
        multi_(make_multi_handle()),
        easy_(make_easy_handle()) {
    CURL* const handle = easy_.get();
    apply_options(handle, client.options());
    add_field(fields_, "Accept: text/event-stream");
    if (!authorization_.empty()) add_field(fields_, "Authorization: " + authorization_);
    set(handle, CURLOPT_URL, client.events_url().c_str());
    set(handle, CURLOPT_HTTPHEADER, fields_.get());
    set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(handle, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    set(handle, CURLOPT_WRITEFUNCTION, &Stream::write);
    set(handle, CURLOPT_WRITEDATA, this);
    curl_multi_add_handle(multi_.get(), handle);
  }
  ~Stream() { curl_multi_remove_handle(multi_.get(), easy_.get()); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Listens until the connection ends or `stop`. True when there was one.
  bool listen(const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi_.get()); });
    int running = 1;
    while (running > 0 && !stop.stop_requested()) {
      if (curl_multi_perform(multi_.get(), &running) != CURLM_OK) break;
      if (running > 0) curl_multi_poll(multi_.get(), nullptr, 0, kPollMs, nullptr);
    }
    if (status() == kTokenRefused) client_.renew_token(authorization_);
    return connected_;
  }

 private:
  [[nodiscard]] long status() const {
    long code = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &code);
    return code;
  }

  static std::size_t write(char* bytes, std::size_t size, std::size_t count, void* self) noexcept {
    auto& stream = *static_cast<Stream*>(self);
    try {
      stream.on_data({bytes, size * count});
    } catch (...) {
      return 0;
    }
    return size * count;
  }

  void on_data(std::string_view piece) {
    if (status() != kStreamBegins) return;
    if (!connected_) {
      connected_ = true;
      on_work_(std::nullopt);
    }
    parser_.feed(piece, [this](std::string_view name, std::string_view data) {
      if (name == "work") on_work_event(data);
    });
  }

  void on_work_event(std::string_view data) {
    json::error_code not_json;
    const json::value value = json::parse(data, not_json);
    if (not_json || !value.is_object()) return;
    const auto text = [&](std::string_view name) {
      const json::value* const member = value.get_object().if_contains(name);
      return member != nullptr && member->is_string() ? std::string(member->get_string())
                                                      : std::string();
    };
    if (text("store") == store_) on_work_(queue_kind(text("queue")));
  }

  HttpClient& client_;
  const std::string store_;
  const OnWork& on_work_;
  const std::string authorization_;
  const MultiHandle multi_;
  const EasyHandle easy_;
  FieldList fields_;
  EventParser parser_;
  bool connected_ = false;
};

EventStream::EventStream(HttpClient& client, const Clock& clock, OnWork on_work)
    : client_(client),
      on_work_(std::move(on_work)),
      pause_(clock),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void EventStream::run(const std::stop_token& stop) {
  detail::Backoff pauses({.first = kFirstPause, .longest = kLongestPause});
  std::string store = client_.options().store;
  while (!stop.stop_requested()) {
    try {
      // A short time: the destructor of this object waits for the answer.
      if (store.empty()) store = client_.describe(client_.options().connect_timeout).name;
      if (Stream(client_, store, on_work_).listen(stop)) pauses.reset();
    } catch (const std::exception&) {
      // Workers poll until the service can be reached again.
    }
    pause_.wait(stop, pauses.take());
  }
}

}  // namespace oncebox::http
