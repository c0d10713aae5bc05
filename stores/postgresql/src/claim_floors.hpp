#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/sql/stored_message.hpp"
#include "oncebox/topic_pattern.hpp"

namespace oncebox::postgresql {

/// Where the next claim begins to look. What a claim takes leaves dead entries in the index. While
/// an old snapshot is held, by a backup or a long report, vacuum cannot remove them, and each claim
/// would pass all of them again. So a process remembers how far it has come, for each selection of
/// topics and each priority. Messages that come back behind that place stand apart (see
/// `sql::Stage::returned`). A transaction that was long in committing is found by a claim that
/// looks at everything, every few seconds. Every call is safe from any thread.
class ClaimFloors {
 public:
  /// Everything is looked at now and then by the clock, which is borrowed.
  explicit ClaimFloors(const Clock& clock) : clock_(clock) {}

  struct Place {
    TimePoint eligible_at{};
    std::int64_t enqueue_order = 0;
  };
  /// For one claim. Without places, everything is looked at.
  struct Floors {
    std::map<int, Place> by_priority = {};
    std::optional<TimePoint> lapsed = {};  ///< no lease that ended until then is left
    bool is_complete = false;              ///< looks at everything
  };

  /// Nothing is known any more.
  void forget();

  [[nodiscard]] Floors before_claim(const TopicSelection& topics);
  /// No lease that ended until then is left.
  [[nodiscard]] std::optional<TimePoint> lapsed();

  /// What a claim has seen.
  struct Claimed {
    TimePoint now{};
    std::span<const sql::StoredMessage> messages = {};  ///< in order
    bool is_exhausted = false;                          ///< nothing else was claimable
    SteadyTime::duration took{};
  };
  void after_claim(const TopicSelection& topics, const Floors& used, const Claimed& claimed);

 private:
  struct Known {
    std::map<int, Place> by_priority = {};
    SteadyTime look_at_all_at{};
  };

  static std::string name_of(const TopicSelection& topics);
  static void raise(Place& place, const Place& to);

  const Clock& clock_;
  detail::Mutex mutex_;
  std::map<std::string, Known> by_selection_ ONCEBOX_GUARDED_BY(mutex_);
  std::optional<TimePoint> lapsed_ ONCEBOX_GUARDED_BY(mutex_);
  TimePoint latest_now_ ONCEBOX_GUARDED_BY(mutex_){};
};

}  // namespace oncebox::postgresql
