#include "oncebox/driver/observed_queue_operator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oncebox/defaults.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/message_line.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

ObservedQueueOperator::ObservedQueueOperator(QueueOperator& below, QueueStore& queue,
                                             std::string store_name,
                                             const Surroundings& surroundings)
    : below_(below),
      queue_(queue),
      store_name_(std::move(store_name)),
      logger_(surroundings.logger),
      observer_(surroundings.observer) {}

MessagePage ObservedQueueOperator::do_list(const ListRequest& request) {
  return below_.list(request);
}

std::size_t ObservedQueueOperator::do_count(const MessageFilter& filter) {
  return below_.count(filter);
}

QueueStats ObservedQueueOperator::do_stats() { return below_.stats(); }

std::vector<WorkerRecord> ObservedQueueOperator::do_workers() { return below_.workers(); }

std::vector<ReviveOutcome> ObservedQueueOperator::do_revive(std::span<const MessageKey> keys,
                                                            const ReviveOptions& options) {
  return below_.revive(keys, options);
}

std::size_t ObservedQueueOperator::do_revive_matching(const MessageFilter& filter,
                                                      const ReviveOptions& options,
                                                      std::size_t limit) {
  return below_.revive_matching(filter, options, limit);
}

std::vector<ReviveOutcome> ObservedQueueOperator::do_revive_edited(
    std::span<const EditedMessage> edits, const ReviveOptions& options) {
  return below_.revive_edited(edits, options);
}

std::vector<PastContent> ObservedQueueOperator::do_past_contents(const MessageKey& key) {
  return below_.past_contents(key);
}

std::vector<ActOutcome> ObservedQueueOperator::do_act(std::span<const MessageKey> keys,
                                                      const OperatorAction& action,
                                                      const ActOptions& options) {
  std::vector<ActOutcome> outcomes = below_.act(keys, action, options);
  if (!std::holds_alternative<Cancel>(action)) return outcomes;
  std::vector<detail::KeyLine> lines;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (outcomes[i] != ActOutcome::changed) continue;
    observer_.on_cancel(keys[i]);
    detail::add_line(lines, detail::death_line(keys[i], "cancelled"));
  }
  detail::write_lines(logger_, store_name_, lines, &queue_);
  return outcomes;
}

// A cancellation goes by keys, so that each death can be told.
std::size_t ObservedQueueOperator::do_act_matching(const MessageFilter& filter,
                                                   const OperatorAction& action, std::size_t limit,
                                                   const ActOptions& options) {
  if (!std::holds_alternative<Cancel>(action)) {
    return below_.act_matching(filter, action, limit, options);
  }
  const ActOptions those{.reason = options.reason, .only = filter};
  std::size_t changed = 0;
  try {
    while (changed < limit) {
      const std::size_t step = std::min(limit - changed, limits::kMaxListItems);
      MessagePage page =
          below_.list({.filter = filter, .limit = step, .max_bytes = defaults::kStepBytes});
      std::vector<MessageKey> keys;
      for (MessageRecord& record : page.records) keys.push_back(std::move(record.key));
      const std::vector<ActOutcome> outcomes = do_act(keys, action, those);
      const auto count = std::ranges::count(outcomes, ActOutcome::changed);
      changed += static_cast<std::size_t>(count);
      if (count == 0 || !page.next) break;
    }
  } catch (const Error& error) {
    if (changed == 0) throw;
    throw Error(ErrorCode::outcome_unknown,
                fmt::format("{} messages were cancelled, then: {}", changed, error.what()));
  }
  return changed;
}

CleanupResult ObservedQueueOperator::do_cleanup(const CleanupRequest& request) {
  return below_.cleanup(request);
}

}  // namespace oncebox
