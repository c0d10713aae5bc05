#include "queue_intake.hpp"

#include <optional>

#include "oncebox/error.hpp"
#include "oncebox/sql/intake.hpp"

namespace oncebox::sqlite {

namespace {

EnqueueOutcome take_in_one(QueueTable& table, const Message& message, const EnqueueOptions& options,
                           TimePoint now) {
  if (table.insert(message, now)) return {};
  std::optional<QueueRow> known = table.find(message.key);
  if (!known) throw Error(ErrorCode::corrupt, "a message is in the index of keys only");
  return sql::Intake(table, now).enqueue_again(*known, message, options);
}

}  // namespace

std::vector<EnqueueOutcome> take_in(QueueTable& table, std::span<const Message> messages,
                                    const EnqueueOptions& options, TimePoint now) {
  std::vector<EnqueueOutcome> outcomes;
  outcomes.reserve(messages.size());
  for (const Message& message : messages) {
    outcomes.push_back(take_in_one(table, message, options, now));
  }
  return outcomes;
}

}  // namespace oncebox::sqlite
