#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/sql/stored_message.hpp"

namespace oncebox::postgresql {

/// Messages with consecutive ids, the last included.
struct IdRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Messages with consecutive ids that were claimed together and of which none has been settled.
struct HeldRun {
  /// From the first message, which is leased to the worker with this number, up to the last.
  HeldRun(const sql::StoredMessage& first, std::int64_t last, std::int32_t leased_to);

  std::int64_t first_id = 0;
  std::int64_t last_id = 0;
  std::int64_t delivery = 0;  ///< of the first; the others follow
  TimePoint seen_at{};
  TimePoint locked_until{};
  int priority = 0;
  std::string topic;
  TimePoint leased_at{};
  std::int32_t worker = 0;

  /// A part of it.
  [[nodiscard]] HeldRun part(std::int64_t first, std::int64_t last) const;
};

/// What this process knows of the messages that it was given, so that their settlement need not
/// look for their keys. Forgetting one costs a little time and nothing else. Every call is safe
/// from any thread.
class Handouts {
 public:
  struct Handout {
    std::int64_t id = 0;
    std::optional<std::string> partition = {};
    bool may_have_attempts = false;
  };

  void remember(std::span<const sql::StoredMessage> claimed, std::span<const HeldRun> runs);
  /// Nothing unless the delivery has a number and is of the same message.
  [[nodiscard]] std::optional<Handout> find(const Delivery& delivery) const;
  void forget(std::span<const Settlement> settlements);
  void forget_all();

  /// The run in which this message was given to us.
  [[nodiscard]] std::optional<HeldRun> run_of(std::int64_t id) const;
  /// What is left of a run, perhaps nothing, takes its place.
  void replace_run(const HeldRun& run, std::span<const HeldRun> rest);

 private:
  struct Remembered {
    Handout handout;
    std::size_t key_hash = 0;
  };

  mutable detail::Mutex mutex_;
  std::unordered_map<std::uint64_t, Remembered> by_delivery_ ONCEBOX_GUARDED_BY(mutex_);
  std::map<std::int64_t, HeldRun> runs_ ONCEBOX_GUARDED_BY(mutex_);  // by the first id
};

}  // namespace oncebox::postgresql
