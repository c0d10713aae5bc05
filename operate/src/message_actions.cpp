#include "oncebox/operate/message_actions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "oncebox/defaults.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

std::size_t act_on_page(QueueOperator& queue, MessagePage& page, const OperatorAction& action,
                        const ActOptions& options) {
  std::vector<MessageKey> keys;
  keys.reserve(page.records.size());
  for (MessageRecord& record : page.records) keys.push_back(std::move(record.key));
  const std::vector<ActOutcome> outcomes = queue.act(keys, action, options);
  return static_cast<std::size_t>(std::ranges::count(outcomes, ActOutcome::changed));
}

}  // namespace

std::size_t act_on_all(QueueOperator& queue, const MessageFilter& filter,
                       const OperatorAction& action, std::size_t limit, const ActOptions& options,
                       const KeepGoing& keep_going) {
  if (options.only) {
    throw Error(ErrorCode::invalid_argument,
                "`only` narrows a call by keys; here one filter says which messages are meant");
  }
  const std::optional<MessageFilter> narrow = filter.narrowed_to(action);
  if (!narrow || limit == 0) return 0;
  ListRequest request{.filter = *narrow, .max_bytes = defaults::kStepBytes};
  const ActOptions those{.reason = options.reason, .only = filter};
  std::size_t changed = 0;
  try {
    do {
      request.limit = std::min(limit - changed, limits::kMaxListItems);
      MessagePage page = queue.list(request);
      changed += act_on_page(queue, page, action, those);
      request.after = std::move(page.next);
    } while (request.after && changed < limit && (!keep_going || keep_going()));
  } catch (const Error& error) {
    if (changed == 0) throw;
    // Nobody may take it for a call that changed nothing.
    throw Error(ErrorCode::outcome_unknown,
                fmt::format("{} messages were changed, then: {}", changed, error.what()));
  }
  return changed;
}

}  // namespace oncebox
