#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "http_client.hpp"
#include "oncebox/driver/work_listener.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::http {

/// What comes before the path of a call about a queue.
[[nodiscard]] constexpr std::string_view path_of(QueueKind queue) noexcept {
  switch (queue) {
    case QueueKind::inbox:
      return "";
    case QueueKind::outbox:
      return "/outbox";
    case QueueKind::deliveries:
      break;
  }
  return "/deliveries";
}

/// A queue of the service.
class HttpQueue final : public QueueStore {
 public:
  /// `start_listening` is called for every listener.
  HttpQueue(HttpClient& client, QueueKind kind, std::function<void()> start_listening)
      : client_(client), prefix_(path_of(kind)), start_listening_(std::move(start_listening)) {}

  [[nodiscard]] WorkListeners& listeners() noexcept { return listeners_; }

 private:
  std::vector<EnqueueOutcome> do_enqueue(std::span<const Message> messages,
                                         const EnqueueOptions& options) override;
  std::vector<ObserveOutcome> do_observe(std::span<const Observation> observations) override;
  std::vector<MarkOutcome> do_mark(std::span<const Mark> marks) override;
  ClaimResult do_claim(const ClaimRequest& request) override;
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override;
  std::vector<ExtendOutcome> do_extend(std::span<const LeaseExtension> extensions) override;
  ReapResult do_reap(const ReapRequest& request) override;
  std::optional<TimePoint> do_next_due(const TopicSelection& topics) override;
  void do_listen(std::weak_ptr<WorkListener> listener) override;
  std::vector<std::optional<MessageRecord>> do_find(std::span<const MessageKey> keys,
                                                    const FindOptions& options) override;

  [[nodiscard]] ApiCall post(std::string_view path, std::string body, Effect effect) const;

  HttpClient& client_;
  const std::string prefix_;
  const std::function<void()> start_listening_;
  WorkListeners listeners_;
};

/// What an operator does with it.
class HttpQueueOperator final : public QueueOperator {
 public:
  HttpQueueOperator(HttpClient& client, QueueKind kind) : client_(client), prefix_(path_of(kind)) {}

 private:
  MessagePage do_list(const ListRequest& request) override;
  std::size_t do_count(const MessageFilter& filter) override;
  QueueStats do_stats() override;
  std::vector<WorkerRecord> do_workers() override;
  std::vector<ReviveOutcome> do_revive(std::span<const MessageKey> keys,
                                       const ReviveOptions& options) override;
  std::size_t do_revive_matching(const MessageFilter& filter, const ReviveOptions& options,
                                 std::size_t limit) override;
  std::vector<ReviveOutcome> do_revive_edited(std::span<const EditedMessage> edits,
                                              const ReviveOptions& options) override;
  std::vector<PastContent> do_past_contents(const MessageKey& key) override;
  std::vector<ActOutcome> do_act(std::span<const MessageKey> keys, const OperatorAction& action,
                                 const ActOptions& options) override;
  std::size_t do_act_matching(const MessageFilter& filter, const OperatorAction& action,
                              std::size_t limit, const ActOptions& options) override;
  CleanupResult do_cleanup(const CleanupRequest& request) override;

  HttpClient& client_;
  const std::string prefix_;
};

}  // namespace oncebox::http
