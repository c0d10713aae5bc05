#include "webhooks/notice_sender.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "oncebox/internal/backoff.hpp"
#include "oncebox/uuid.hpp"
#include "oncebox/webhook/webhook_client.hpp"
#include "oncebox/webhook/webhook_signer.hpp"
#include "oncebox/wire/dead_json.hpp"

namespace oncebox::server {

namespace {

constexpr Duration kFirstSendPause = std::chrono::seconds{1};
constexpr Duration kLongestSendPause = std::chrono::minutes{1};

}  // namespace

struct NoticeSender::Receiver {
  Receiver(const NoticeOptions& options, const Clock& clock)
      : signer({options.secret}), client({.timeout = options.timeout}, clock) {}

  webhook::WebhookSigner signer;
  webhook::WebhookClient client;
};

NoticeSender::NoticeSender(const NoticeOptions& options, RecoveryMetrics& metrics, Logger& logger,
                           const Clock& clock)
    : options_(options),
      metrics_(metrics),
      logger_(logger),
      clock_(clock),
      receiver_(options.url.empty() ? nullptr : std::make_unique<Receiver>(options, clock)) {}

NoticeSender::~NoticeSender() = default;

void NoticeSender::on_notice(const DeadNotice& notice) noexcept {
  logger_.log(LogLevel::warning, "messages are dead; oncebox dead groups shows them",
              {{"store", notice.store},
               {"queue", notice.queue},
               {"group", notice.group.id.str()},
               {"count", notice.group.count},
               {"threshold", notice.threshold}});
  if (notice.more_groups > 0) {
    logger_.log(LogLevel::warning, "messages of further groups are dead",
                {{"store", notice.store}, {"queue", notice.queue}, {"groups", notice.more_groups}});
  }
  send_later(NoticeKind::dead, notice.store,
             [&](TimePoint now) { return wire::write_dead_notice(notice, now); });
}

void NoticeSender::on_endpoint_disabled(const wire::DisabledEndpoint& notice) noexcept {
  try {
    metrics_.on_endpoint_disabled(std::string(notice.store));
  } catch (const std::exception& failure) {
    logger_.log(LogLevel::warning, "a disabled endpoint is missing in the metrics",
                {{"store", notice.store}, {"reason", failure.what()}});
  }
  send_later(NoticeKind::endpoint, notice.store,
             [&](TimePoint now) { return wire::write_disabled_endpoint(notice, now); });
}

template <class MakeBody>
void NoticeSender::send_later(NoticeKind kind, std::string_view store,
                              MakeBody make_body) noexcept {
  if (options_.url.empty()) return;
  try {
    const TimePoint now = clock_.now();
    wait_in_line({.kind = kind,
                  .store = std::string(store),
                  .id = "msg_" + Uuid::generate_v7(now).to_string(),
                  .body = make_body(now)});
  } catch (const std::exception& failure) {
    logger_.log(LogLevel::error, "a notice cannot be sent",
                {{"store", store}, {"reason", failure.what()}});
  }
}

void NoticeSender::wait_in_line(Waiting waiting) {
  {
    const detail::Lock lock(mutex_);
    if (waiting_.size() < options_.max_queued) {
      waiting_.push_back(std::move(waiting));
      if (!thread_.joinable()) {
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
      }
      changed_.notify_one();
      return;
    }
  }
  metrics_.on_notice(waiting.kind, waiting.store, "dropped");
}

void NoticeSender::run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const detail::Lock lock(mutex_);
    changed_.notify_all();
  });
  while (!stop.stop_requested()) {
    Waiting next;
    {
      const detail::Lock lock(mutex_);
      while (waiting_.empty() && !stop.stop_requested()) changed_.wait(mutex_);
      if (stop.stop_requested()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      send(next, stop);
    } catch (const std::exception& failure) {
      metrics_.on_notice(next.kind, next.store, "failed");
      logger_.log(LogLevel::error, "a notice cannot be sent",
                  {{"store", next.store}, {"reason", failure.what()}});
    }
  }
}

void NoticeSender::send(const Waiting& notice, const std::stop_token& stop) {
  using Acceptance = webhook::WebhookAcceptance;
  detail::Backoff pauses({.first = kFirstSendPause, .longest = kLongestSendPause});
  for (std::size_t attempt = 1; !stop.stop_requested(); ++attempt) {
    // Whoever configures the server chose the address.
    const webhook::WebhookRequest request{
        .url = options_.url,
        .body = notice.body,
        .fields = receiver_->signer.fields(notice.id, clock_.now(), notice.body),
        .allow_private = true};
    const Acceptance acceptance = receiver_->client.post(request, stop).acceptance();
    if (acceptance == Acceptance::taken) {
      return metrics_.on_notice(notice.kind, notice.store, "sent");
    }
    const bool is_refused = acceptance == Acceptance::refused || acceptance == Acceptance::gone;
    if (is_refused || attempt == options_.attempts) {
      metrics_.on_notice(notice.kind, notice.store, "failed");
      logger_.log(LogLevel::error, "a notice was not taken",
                  {{"store", notice.store},
                   {"id", notice.id},
                   {"attempts", attempt},
                   {"refused", is_refused}});
      return;
    }
    pause(pauses.take(), stop);
  }
}

void NoticeSender::pause(Duration length, const std::stop_token& stop) {
  const SteadyTime until = clock_.steady() + length;
  const detail::Lock lock(mutex_);
  while (!stop.stop_requested() && changed_.wait_until(mutex_, until)) {
  }
}

}  // namespace oncebox::server
