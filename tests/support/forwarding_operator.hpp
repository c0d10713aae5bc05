#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "oncebox/queue_operator.hpp"

namespace oncebox {

/// An operator's side of a queue that passes every call on.
class ForwardingOperator : public QueueOperator {
 public:
  explicit ForwardingOperator(QueueOperator& below) : below_(below) {}

 protected:
  MessagePage do_list(const ListRequest& request) override { return below_.list(request); }
  std::size_t do_count(const MessageFilter& filter) override { return below_.count(filter); }
  QueueStats do_stats() override { return below_.stats(); }
  std::vector<WorkerRecord> do_workers() override { return below_.workers(); }
  std::vector<ReviveOutcome> do_revive(std::span<const MessageKey> keys,
                                       const ReviveOptions& options) override {
    return below_.revive(keys, options);
  }
  std::size_t do_revive_matching(const MessageFilter& filter, const ReviveOptions& options,
                                 std::size_t limit) override {
    return below_.revive_matching(filter, options, limit);
  }
  std::vector<ReviveOutcome> do_revive_edited(std::span<const EditedMessage> edits,
                                              const ReviveOptions& options) override {
    return below_.revive_edited(edits, options);
  }
  std::vector<PastContent> do_past_contents(const MessageKey& key) override {
    return below_.past_contents(key);
  }
  std::vector<ActOutcome> do_act(std::span<const MessageKey> keys, const OperatorAction& action,
                                 const ActOptions& options) override {
    return below_.act(keys, action, options);
  }
  std::size_t do_act_matching(const MessageFilter& filter, const OperatorAction& action,
                              std::size_t limit, const ActOptions& options) override {
    return below_.act_matching(filter, action, limit, options);
  }
  CleanupResult do_cleanup(const CleanupRequest& request) override {
    return below_.cleanup(request);
  }

 private:
  QueueOperator& below_;
};

/// One where something happens after the first list has been read, before whoever asked for it goes
/// on.
class RacingOperator final : public ForwardingOperator {
 public:
  RacingOperator(QueueOperator& below, std::function<void()> race)
      : ForwardingOperator(below), race_(std::move(race)) {}

 private:
  MessagePage do_list(const ListRequest& request) override {
    MessagePage page = ForwardingOperator::do_list(request);
    if (race_) std::exchange(race_, nullptr)();
    return page;
  }

  std::function<void()> race_;
};

}  // namespace oncebox
