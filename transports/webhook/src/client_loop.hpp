#pragma once

#include <atomic>
#include <memory>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <vector>

#include "environment_proxy.hpp"
#include "host_lanes.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/curl/handles.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/webhook/webhook_client.hpp"

namespace oncebox::webhook {

/// The thread of a client and all that it owns: requests that wait or are under way, and the
/// connections. Other threads hand in orders, and ring.
class ClientLoop {
 public:
  /// Both are borrowed.
  ClientLoop(const WebhookClientOptions& options, const Clock& clock);
  /// Whatever has not ended ends as stopped.
  ~ClientLoop();
  ClientLoop(const ClientLoop&) = delete;
  ClientLoop& operator=(const ClientLoop&) = delete;

  /// As `WebhookClient::send`.
  void send(WebhookRequest request, WebhookClient::OnAnswer on_answer, const std::stop_token& stop);

 private:
  class Alarm;
  struct Cancel;
  struct Sending;
  using SendingPtr = std::unique_ptr<Sending>;
  using RequestId = HostLanes::RequestId;
  using Sendings = std::unordered_map<RequestId, SendingPtr>;

  void run(const std::stop_token& stop);
  void close_idle_connections();
  void take_orders();
  void admit(SendingPtr sending);
  void end_cancelled();
  void end_expired();
  void begin_what_may();
  void begin(Sending& sending);
  [[nodiscard]] bool finish_what_is_done();
  void end(Sendings::iterator found, WebhookAnswer answer) noexcept;
  void sleep();
  void stop_all();

  const WebhookClientOptions& options_;
  const Clock& clock_;
  const EnvironmentProxy proxy_;
  const std::shared_ptr<Alarm> alarm_;

  detail::Mutex mutex_;
  std::vector<SendingPtr> orders_ ONCEBOX_GUARDED_BY(mutex_);
  RequestId last_id_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> is_something_cancelled_ = false;

  // Of the thread alone.
  HostLanes lanes_;
  curl::MultiHandle multi_;
  std::vector<curl::EasyHandle> idle_handles_;  // as many as were in use at once
  Sendings sendings_;                           // whatever has no answer yet
  SteadyTime now_{};                            // one time for all that is decided together
  SteadyTime last_end_{};
  bool may_have_connections_ = false;

  std::jthread thread_;  // last: it uses the members above
};

}  // namespace oncebox::webhook
