#include <algorithm>

#include "oncebox/limits.hpp"
#include "oncebox/sql/intake.hpp"
#include "queue_intake.hpp"
#include "sqlite_queue.hpp"

namespace oncebox::sqlite {

std::vector<EnqueueOutcome> SqliteQueue::do_enqueue(std::span<const Message> messages,
                                                    const EnqueueOptions& options) {
  for (const Message& message : messages) {
    require_payload_size(message.payload.size(), max_payload_bytes_);
  }
  auto outcomes = write(Flush::required,
                        [&](TimePoint now) { return take_in(table_, messages, options, now); });
  if (std::any_of(outcomes.begin(), outcomes.end(), brings_work)) listeners_.notify();
  return outcomes;
}

std::vector<ObserveOutcome> SqliteQueue::do_observe(std::span<const Observation> observations) {
  return write(Flush::required, [&](TimePoint now) {
    sql::Intake intake(table_, now);
    const auto paused = [&] { return std::span(parts_.policies.current(kind_).paused()); };
    std::vector<ObserveOutcome> outcomes;
    outcomes.reserve(observations.size());
    for (const Observation& observation : observations) {
      outcomes.push_back(intake.observe(observation, paused));
    }
    return outcomes;
  });
}

}  // namespace oncebox::sqlite
