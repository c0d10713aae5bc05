#include "client_loop.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "oncebox/error.hpp"
#include "transfer.hpp"

namespace oncebox::webhook {

namespace {

// As long as libcurl uses a connection again; after that it is only in the receiver's way.
constexpr Duration kMaxIdle = std::chrono::seconds{45};
constexpr Duration kLongestSleep = std::chrono::hours{1};

WebhookAnswer failed(std::string_view why) noexcept {
  try {
    return {.failure = std::string(why)};
  } catch (...) {
    return {};
  }
}

curl::MultiHandle new_multi(const WebhookClientOptions& options) {
  curl::MultiHandle handle = curl::make_multi_handle();
  // Otherwise it keeps four for each request that is under way, and so none of a burst.
  curl_multi_setopt(handle.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(options.max_connections));
  return handle;
}

WebhookAnswer stopped() noexcept { return {.failure = "stopped", .stopped = true}; }

}  // namespace

/// Ends the sleep of the thread, also when the time of the clock is moved by hand, which may happen
/// after the end of the client.
class ClientLoop::Alarm final : public ClockMoves::Listener {
 public:
  /// Null: there is nobody to wake.
  void set(CURLM* handle) noexcept {
    const detail::Lock lock(mutex_);
    handle_ = handle;
  }
  void ring() noexcept {
    const detail::Lock lock(mutex_);
    if (handle_ != nullptr) curl_multi_wakeup(handle_);
  }
  void on_moved() noexcept override { ring(); }

 private:
  detail::Mutex mutex_;
  CURLM* handle_ ONCEBOX_GUARDED_BY(mutex_) = nullptr;
};

struct ClientLoop::Cancel {
  ClientLoop& loop;
  Sending& sending;

  void operator()() const noexcept;
};

struct ClientLoop::Sending {
  Sending(WebhookRequest request, const ClientLoop& loop, WebhookClient::OnAnswer then)
      : transfer(std::move(request), loop.options_, loop.proxy_), on_answer(std::move(then)) {}

  Transfer transfer;
  WebhookClient::OnAnswer on_answer;
  RequestId id = 0;
  SteadyTime until{};
  curl::EasyHandle handle;  ///< while it is under way
  std::atomic<bool> is_cancelled = false;
  std::optional<std::stop_callback<Cancel>> on_stop;  ///< last: it uses the members above
};

// Nothing here needs memory, because nothing here may fail.
void ClientLoop::Cancel::operator()() const noexcept {
  sending.is_cancelled = true;
  loop.is_something_cancelled_ = true;
  loop.alarm_->ring();
}

ClientLoop::ClientLoop(const WebhookClientOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      alarm_(std::make_shared<Alarm>()),
      lanes_(options.max_connections_per_host, options.max_connections),
      multi_(new_multi(options)) {
  idle_handles_.reserve(options.max_connections);  // so that giving one back needs no memory
  alarm_->set(multi_.get());
  if (ClockMoves* const moves = clock.moves()) moves->add(alarm_);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

ClientLoop::~ClientLoop() {
  thread_.request_stop();
  thread_.join();
  alarm_->set(nullptr);
}

void ClientLoop::send(WebhookRequest request, WebhookClient::OnAnswer on_answer,
                      const std::stop_token& stop) {
  auto sending = std::make_unique<Sending>(std::move(request), *this, std::move(on_answer));
  if (stop.stop_possible()) sending->on_stop.emplace(stop, Cancel{*this, *sending});
  bool is_first = false;
  {
    const detail::Lock lock(mutex_);
    is_first = orders_.empty();
    orders_.push_back(std::move(sending));
    orders_.back()->id = ++last_id_;
  }
  if (is_first) alarm_->ring();
}

void ClientLoop::run(const std::stop_token& stop) {
  const std::stop_callback ring(stop, [this] { alarm_->ring(); });
  for (;;) {
    // First: who rang at the old handle is heard by what follows.
    close_idle_connections();
    if (stop.stop_requested()) break;
    take_orders();
    end_cancelled();
    end_expired();
    begin_what_may();
    if (!finish_what_is_done()) sleep();
  }
  stop_all();
}

// libcurl would keep them until the next request.
void ClientLoop::close_idle_connections() {
  now_ = clock_.steady();
  if (!sendings_.empty() || !may_have_connections_ || now_ < last_end_ + kMaxIdle) return;
  may_have_connections_ = false;
  try {
    curl::MultiHandle fresh = new_multi(options_);
    idle_handles_.clear();
    alarm_->set(fresh.get());
    multi_ = std::move(fresh);
  } catch (const std::exception&) {
    return;  // then they stay
  }
}

void ClientLoop::take_orders() {
  std::vector<SendingPtr> orders;
  {
    const detail::Lock lock(mutex_);
    orders.swap(orders_);
  }
  now_ = clock_.steady();
  for (SendingPtr& order : orders) admit(std::move(order));
}

void ClientLoop::admit(SendingPtr sending) {
  Sending& admitted = *sending;
  try {
    const auto found = sendings_.emplace(admitted.id, nullptr).first;
    found->second = std::move(sending);
    if (!admitted.transfer.problem().empty()) {
      return end(found, failed(admitted.transfer.problem()));
    }
    // One that was cancelled before it came here is known to nobody else.
    if (admitted.is_cancelled) return end(found, stopped());
    admitted.until = now_ + admitted.transfer.timeout();
    lanes_.add(admitted.id, admitted.transfer.lane(), admitted.until);
  } catch (const std::exception&) {
    const auto found = sendings_.find(admitted.id);
    if (found != sendings_.end()) return end(found, failed("there is no memory to send it"));
    sending->on_stop.reset();
    sending->on_answer(failed("there is no memory to send it"));
  }
}

void ClientLoop::end_cancelled() {
  if (!is_something_cancelled_.exchange(false)) return;
  for (auto next = sendings_.begin(); next != sendings_.end();) {
    const auto current = next++;
    if (current->second->is_cancelled) end(current, stopped());
  }
}

void ClientLoop::end_expired() {
  while (const auto id = lanes_.take_expired(now_)) {
    WebhookAnswer answer = failed("no connection was free before the timeout");
    answer.never_sent = true;
    end(sendings_.find(*id), std::move(answer));
  }
}

void ClientLoop::begin_what_may() {
  while (const auto id = lanes_.begin_next()) {
    const auto found = sendings_.find(*id);
    try {
      begin(*found->second);
    } catch (const std::exception&) {
      end(found, failed("libcurl cannot send it"));
    }
  }
}

void ClientLoop::begin(Sending& sending) {
  curl::EasyHandle handle;
  if (idle_handles_.empty()) {
    handle = curl::make_easy_handle();
  } else {
    handle = std::move(idle_handles_.back());
    idle_handles_.pop_back();
  }
  // What it waited for is time of the clock, the rest is libcurl's own.
  sending.transfer.prepare(handle.get(), std::chrono::ceil<Duration>(sending.until - now_));
  curl::set(handle.get(), CURLOPT_PRIVATE, &sending);
  if (curl_multi_add_handle(multi_.get(), handle.get()) != CURLM_OK) {
    throw Error(ErrorCode::internal, "libcurl took no further request");
  }
  sending.handle = std::move(handle);
}

/// Whether something was, which makes room for others.
bool ClientLoop::finish_what_is_done() {
  int running = 0;
  curl_multi_perform(multi_.get(), &running);
  bool found = false;
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    found = true;
    CURL* const handle = message->easy_handle;
    const CURLcode code = message->data.result;
    Sending* sending = nullptr;
    curl_easy_getinfo(handle, CURLINFO_PRIVATE, &sending);
    WebhookAnswer answer;
    try {
      answer = sending->transfer.answer(handle, code, clock_);
    } catch (const std::exception&) {
      answer = failed("there is no memory for the answer");
    }
    end(sendings_.find(sending->id), std::move(answer));
  }
  return found;
}

void ClientLoop::end(Sendings::iterator found, WebhookAnswer answer) noexcept {
  const SendingPtr ended = std::move(found->second);
  sendings_.erase(found);
  lanes_.end(ended->id);
  if (ended->handle) {
    curl_multi_remove_handle(multi_.get(), ended->handle.get());
    idle_handles_.push_back(std::move(ended->handle));
    may_have_connections_ = true;
    last_end_ = clock_.steady();
  }
  ended->on_stop.reset();
  ended->on_answer(std::move(answer));
}

void ClientLoop::sleep() {
  SteadyTime until = now_ + kLongestSleep;
  if (const auto expiry = lanes_.next_expiry()) until = std::min(until, *expiry);
  if (sendings_.empty() && may_have_connections_) until = std::min(until, last_end_ + kMaxIdle);
  const auto left = std::chrono::ceil<Duration>(until - clock_.steady());
  const auto milliseconds = std::clamp(left, Duration{0}, kLongestSleep).count();
  curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(milliseconds), nullptr);
}

void ClientLoop::stop_all() {
  for (;;) {
    take_orders();
    if (sendings_.empty()) return;
    while (!sendings_.empty()) end(sendings_.begin(), stopped());
  }
}

}  // namespace oncebox::webhook
