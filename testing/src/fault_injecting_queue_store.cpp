#include "oncebox/testing/fault_injecting_queue_store.hpp"

#include <utility>

namespace oncebox::testing {

FaultInjectingQueueStore::FaultInjectingQueueStore(QueueStore& below, Plan plan)
    : below_(below), plan_(std::move(plan)) {}

template <class Call>
auto FaultInjectingQueueStore::perhaps_failing(std::string_view name, Call call) {
  const Fault fault = plan_(name);
  if (fault == Fault::before) throw Error(ErrorCode::unavailable, "injected: store unavailable");
  auto answer = call();
  if (fault == Fault::after) throw Error(ErrorCode::outcome_unknown, "injected: answer lost");
  return answer;
}

std::vector<EnqueueOutcome> FaultInjectingQueueStore::do_enqueue(std::span<const Message> messages,
                                                                 const EnqueueOptions& options) {
  return perhaps_failing("enqueue", [&] { return below_.enqueue(messages, options); });
}

std::vector<ObserveOutcome> FaultInjectingQueueStore::do_observe(
    std::span<const Observation> observations) {
  return perhaps_failing("observe", [&] { return below_.observe(observations); });
}

std::vector<MarkOutcome> FaultInjectingQueueStore::do_mark(std::span<const Mark> marks) {
  return perhaps_failing("mark", [&] { return below_.mark(marks); });
}

std::vector<ClaimedMessage> FaultInjectingQueueStore::do_claim(const ClaimRequest& request) {
  return perhaps_failing("claim", [&] { return below_.claim(request); });
}

std::vector<SettleOutcome> FaultInjectingQueueStore::do_settle(
    std::span<const Settlement> settlements) {
  return perhaps_failing("settle", [&] { return below_.settle(settlements); });
}

std::vector<ExtendOutcome> FaultInjectingQueueStore::do_extend(
    std::span<const LeaseExtension> extensions) {
  return perhaps_failing("extend", [&] { return below_.extend(extensions); });
}

ReapResult FaultInjectingQueueStore::do_reap(const ReapRequest& request) {
  return perhaps_failing("reap", [&] { return below_.reap(request); });
}

std::optional<TimePoint> FaultInjectingQueueStore::do_next_due(const TopicSelection& topics) {
  return perhaps_failing("next_due", [&] { return below_.next_due(topics); });
}

void FaultInjectingQueueStore::do_listen(std::weak_ptr<WorkListener> listener) {
  below_.listen(std::move(listener));
}

void FaultInjectingQueueStore::do_offer(const std::shared_ptr<ClaimOffer>& offer) {
  below_.offer(offer);
}

std::vector<std::optional<MessageRecord>> FaultInjectingQueueStore::do_find(
    std::span<const MessageKey> keys) {
  return perhaps_failing("find", [&] { return below_.find(keys); });
}

}  // namespace oncebox::testing
