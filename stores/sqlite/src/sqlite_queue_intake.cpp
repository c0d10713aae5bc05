#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/sql/intake.hpp"
#include "sqlite_queue.hpp"

namespace oncebox::sqlite {

EnqueueOutcome SqliteQueue::enqueue_one(const Message& message, const EnqueueOptions& options,
                                        TimePoint now) {
  if (table_.insert(message, now)) return {};
  std::optional<QueueRow> known = table_.find(message.key);
  if (!known) throw Error(ErrorCode::corrupt, "a message is in the index of keys only");
  return sql::Intake(table_, now).enqueue_again(*known, message, options);
}

std::vector<EnqueueOutcome> SqliteQueue::do_enqueue(std::span<const Message> messages,
                                                    const EnqueueOptions& options) {
  for (const Message& message : messages) {
    if (message.payload.size() <= max_payload_bytes_) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a payload has {} bytes; this store takes at most {}",
                            message.payload.size(), max_payload_bytes_));
  }
  auto outcomes = write(Flush::required, [&](TimePoint now) {
    std::vector<EnqueueOutcome> answers;
    answers.reserve(messages.size());
    for (const Message& message : messages) answers.push_back(enqueue_one(message, options, now));
    return answers;
  });
  if (std::any_of(outcomes.begin(), outcomes.end(), brings_work)) listeners_.notify();
  return outcomes;
}

std::vector<ObserveOutcome> SqliteQueue::do_observe(std::span<const Observation> observations) {
  return write(Flush::required, [&](TimePoint now) {
    sql::Intake intake(table_, now);
    std::vector<ObserveOutcome> outcomes;
    outcomes.reserve(observations.size());
    for (const Observation& observation : observations) {
      outcomes.push_back(intake.observe(observation));
    }
    return outcomes;
  });
}

}  // namespace oncebox::sqlite
