#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "oncebox/log.hpp"
#include "oncebox/observer.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/surroundings.hpp"

namespace oncebox {

/// An operator's side of a queue that tells a logger and an observer which messages went dead by a
/// cancellation, and otherwise behaves as the one below.
class ObservedQueueOperator final : public QueueOperator {
 public:
  /// Everything is borrowed and must outlive this object. `queue` is the one that is operated: what
  /// a line says of a message is looked up there. `store_name` appears in each line. Of the
  /// surroundings, logger and observer are used.
  ObservedQueueOperator(QueueOperator& below, QueueStore& queue, std::string store_name,
                        const Surroundings& surroundings);

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

  QueueOperator& below_;
  QueueStore& queue_;
  const std::string store_name_;
  Logger& logger_;
  Observer& observer_;
};

}  // namespace oncebox
