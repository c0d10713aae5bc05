#pragma once

#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "observe/recovery_metrics.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/log.hpp"
#include "oncebox/operate/dead_notices.hpp"
#include "oncebox/server/notice_options.hpp"
#include "oncebox/wire/endpoint_json.hpp"

namespace oncebox::server {

/// Logs notices, and sends them to a webhook one after the other on a thread of its own, which
/// starts with the first. What waits when it is destroyed is not sent any more. Safe from any
/// thread.
class NoticeSender final : public DeadNoticeSink {
 public:
  /// Everything but the options is borrowed.
  NoticeSender(const NoticeOptions& options, RecoveryMetrics& metrics, Logger& logger,
               const Clock& clock);
  ~NoticeSender() override;
  NoticeSender(const NoticeSender&) = delete;
  NoticeSender& operator=(const NoticeSender&) = delete;

  void on_notice(const DeadNotice& notice) noexcept override;
  /// Is counted, too. Whoever disabled it has logged it.
  void on_endpoint_disabled(const wire::DisabledEndpoint& notice) noexcept;

 private:
  struct Waiting {
    NoticeKind kind;
    std::string store;
    std::string id;  ///< the same in every attempt, so that the receiver knows a repetition
    std::string body;
  };
  struct Receiver;

  /// Makes the body when there is an address to send it to.
  template <class MakeBody>
  void send_later(NoticeKind kind, std::string_view store, MakeBody make_body) noexcept;
  void wait_in_line(Waiting waiting);
  void run(const std::stop_token& stop);
  void send(const Waiting& notice, const std::stop_token& stop);
  void pause(Duration length, const std::stop_token& stop);

  const NoticeOptions options_;
  RecoveryMetrics& metrics_;
  Logger& logger_;
  const Clock& clock_;
  const std::unique_ptr<Receiver> receiver_;  // null without an address

  detail::Mutex mutex_;
  detail::TimedCondition changed_{clock_};
  std::deque<Waiting> waiting_ ONCEBOX_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace oncebox::server
