#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "oncebox/queue_store.hpp"

namespace oncebox {

/// A queue store that does what another does, for those who change a part of it: override a call,
/// or `forward` for all of them. It offers no transactions, which would pass by.
class ForwardingQueueStore : public QueueStore {
 public:
  /// Borrows the other one, which must outlive this.
  explicit ForwardingQueueStore(QueueStore& below) : below_(below) {}

 protected:
  [[nodiscard]] QueueStore& below() const noexcept { return below_; }

  /// Makes a call of the store below, of this name ("enqueue", "claim" …). May throw instead, or
  /// afterwards. Listening and offering do not come here.
  virtual void forward(std::string_view /*name*/, const std::function<void()>& call) { call(); }

  std::vector<EnqueueOutcome> do_enqueue(std::span<const Message> messages,
                                         const EnqueueOptions& options) override {
    return answer("enqueue", [&] { return below_.enqueue(messages, options); });
  }
  std::vector<ObserveOutcome> do_observe(std::span<const Observation> observations) override {
    return answer("observe", [&] { return below_.observe(observations); });
  }
  std::vector<MarkOutcome> do_mark(std::span<const Mark> marks) override {
    return answer("mark", [&] { return below_.mark(marks); });
  }
  ClaimResult do_claim(const ClaimRequest& request) override {
    return answer("claim", [&] { return below_.claim(request); });
  }
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override {
    return answer("settle", [&] { return below_.settle(settlements); });
  }
  std::vector<ExtendOutcome> do_extend(std::span<const LeaseExtension> extensions) override {
    return answer("extend", [&] { return below_.extend(extensions); });
  }
  ReapResult do_reap(const ReapRequest& request) override {
    return answer("reap", [&] { return below_.reap(request); });
  }
  std::optional<TimePoint> do_next_due(const TopicSelection& topics) override {
    return answer("next_due", [&] { return below_.next_due(topics); });
  }
  std::vector<std::optional<MessageRecord>> do_find(std::span<const MessageKey> keys,
                                                    const FindOptions& options) override {
    return answer("find", [&] { return below_.find_some(keys, options); });
  }
  void do_listen(std::weak_ptr<WorkListener> listener) override {
    below_.listen(std::move(listener));
  }
  void do_offer(const std::shared_ptr<ClaimOffer>& offer) override { below_.offer(offer); }
  void do_require_outside_transaction() const override { below_.require_outside_transaction(); }

 private:
  template <class Call>
  std::invoke_result_t<Call> answer(std::string_view name, Call call) {
    std::optional<std::invoke_result_t<Call>> result;
    forward(name, [&] { result.emplace(call()); });
    return std::move(*result);
  }

  QueueStore& below_;
};

}  // namespace oncebox
