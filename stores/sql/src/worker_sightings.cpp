#include "oncebox/sql/worker_sightings.hpp"

#include <chrono>
#include <cstddef>

namespace oncebox::sql {

namespace {

constexpr Duration kWhenWorking = std::chrono::seconds{10};
// Much less than the time after which a store forgets a worker: a row that is known here is there.
constexpr Duration kWhenIdle = std::chrono::minutes{5};
static_assert(2 * kWhenIdle < kWorkerRetention);

// Whoever claims under ever new names must not fill the memory.
constexpr std::size_t kMaxSightings = 10'000;

}  // namespace

std::optional<std::int64_t> WorkerSightings::number_of(const WorkerName& name,
                                                       TimePoint now) const {
  const detail::Lock lock(mutex_);
  const auto known = sightings_.find(name);
  if (known == sightings_.end()) return std::nullopt;
  const Sighting& sighting = known->second;
  const Duration past = now - sighting.written_at;
  const bool is_fresh =
      past >= Duration::zero() && past < (sighting.has_worked ? kWhenWorking : kWhenIdle);
  return is_fresh ? std::optional(sighting.number) : std::nullopt;
}

void WorkerSightings::written(const WorkerName& name, std::int64_t number, TimePoint now) {
  const detail::Lock lock(mutex_);
  if (sightings_.size() >= kMaxSightings) sightings_.clear();
  sightings_.insert_or_assign(name, Sighting{.number = number, .written_at = now});
}

void WorkerSightings::was_given_work(const WorkerName& name) {
  const detail::Lock lock(mutex_);
  const auto known = sightings_.find(name);
  if (known != sightings_.end()) known->second.has_worked = true;
}

void WorkerSightings::forget() noexcept {
  const detail::Lock lock(mutex_);
  sightings_.clear();
}

}  // namespace oncebox::sql
