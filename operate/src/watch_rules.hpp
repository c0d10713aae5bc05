#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "oncebox/operate/watchdog.hpp"

/// What a look at a queue tells, without threads.
namespace oncebox {

/// A rule, at one look. Between good and bad nothing appears and nothing goes.
enum class Level { good, unclear, bad };

struct Symptom {
  FindingCode code = FindingCode::store_lagging;
  std::optional<Topic> topic = {};
  Level level = Level::bad;
  TimePoint since{};
  std::string detail = {};
};

/// The rules for one queue of one store. Remembers what it needs of earlier looks.
class QueueRules {
 public:
  explicit QueueRules(const WatchdogOptions& options) : options_(options) {}

  /// Those that are bad or unclear; the rest is good.
  [[nodiscard]] std::vector<Symptom> look(const QueueLook& look);

 private:
  struct Held {
    DeliveryNumber delivery{};
    TimePoint since{};
    Duration lease{};  ///< the most that a look found left of it
  };

  void look_for_leases(const QueueLook& look, std::vector<Symptom>& found);
  [[nodiscard]] std::vector<Symptom> stuck_leases(const QueueLook& look);
  void look_for_late(const QueueLook& look, std::vector<Symptom>& found) const;
  void look_for_backlog(const QueueLook& look, std::vector<Symptom>& found);
  void look_for_poison(const QueueLook& look, std::vector<Symptom>& found);

  const WatchdogOptions& options_;
  std::map<MessageKey, Held> held_;
  std::vector<Symptom> stuck_;        ///< leases, when they were last looked for
  std::deque<std::size_t> backlogs_;  ///< while they grow
  std::optional<TimePoint> grows_since_;
  std::map<Topic, std::size_t> dead_;  ///< at the last look
  std::map<Topic, TimePoint> poisoned_;
};

/// The findings about one store. They appear at once, and go when two looks in a row were good.
class Findings {
 public:
  struct Change {
    Finding finding;
    bool appeared = true;
  };

  /// All that was seen of a queue, or with an empty name of the store.
  [[nodiscard]] std::vector<Change> update(const std::string& store, std::string_view queue,
                                           const std::vector<Symptom>& symptoms);
  [[nodiscard]] std::vector<Finding> all() const;

 private:
  using Place = std::tuple<std::string, FindingCode, std::optional<Topic>>;
  struct Entry {
    Finding finding;
    int good_looks = 0;
  };
  std::map<Place, Entry> entries_;
};

}  // namespace oncebox
