#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/engine/stopwatch.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/log.hpp"

namespace oncebox::detail {

/// Extends the leases of the keys that handlers of this process hold, each when a third of it has
/// passed. The thread starts with the first key, and ends when there has been none for a while.
class KeyLeases {
 public:
  /// A key that is held; stays where it is between `add` and `remove`.
  struct Held {
    Held(const IdempotencyKey& of, const LeaseId& id, const Clock& clock)
        : key(of), lease_id(id), since_try_(clock), since_success_(clock) {}

    const IdempotencyKey key;
    const LeaseId lease_id;
    std::stop_source stop;
    std::atomic<bool> lost = false;

   private:
    // Touched by `KeyLeases` alone, under its lock.
    friend class KeyLeases;
    Stopwatch since_try_;
    Stopwatch since_success_;
    std::uint64_t number_ = 0;
    bool ending_ = false;
  };

  /// All but the lease are borrowed.
  KeyLeases(IdempotencyStore& keys, Duration lease, const std::string& name, Logger& logger,
            const Clock& clock);
  ~KeyLeases();
  KeyLeases(const KeyLeases&) = delete;
  KeyLeases& operator=(const KeyLeases&) = delete;

  void add(Held& held);
  /// The handler has ended: the lease is kept until `remove`, but its loss is not told any more.
  void set_ending(Held& held);
  void remove(Held& held);

  /// Looks at the clock now.
  void wake();

 private:
  struct Renewal {
    std::uint64_t number = 0;
    KeyExtension extension;
  };

  void run();
  /// Extends the leases that are due, and answers when the next one will be. Does not throw: a
  /// failure is logged, and tried again soon.
  [[nodiscard]] SteadyTime renew_due() noexcept;
  /// Nothing once this object is being destroyed.
  [[nodiscard]] std::vector<Renewal> take_due();
  [[nodiscard]] SteadyTime next_due();
  /// Waits for that time, or for `wake`. False: the thread ends, as it has nothing to do.
  bool rest_until(SteadyTime next);
  void renew(const std::vector<Renewal>& due);
  /// Because of the exception that is being handled.
  void warn_not_extended(std::size_t keys) noexcept;
  /// Without outcomes the store could not be reached.
  void note(const std::vector<Renewal>& due, const std::vector<KeyExtendOutcome>* outcomes);
  /// How to ask the handler of a key to stop whose lease is lost with this outcome; nothing to stop
  /// when it is not.
  [[nodiscard]] std::stop_source lost_by(const Renewal& renewal, const KeyExtendOutcome* outcome);
  bool is_lost_by(Held& held, const KeyExtendOutcome* outcome) const ONCEBOX_REQUIRES(mutex_);

  IdempotencyStore& keys_;
  const Duration lease_;
  const Duration round_;
  const std::string& name_;
  Logger& logger_;

  const Clock& clock_;

  Mutex mutex_;
  TimedCondition changed_;
  // By number, which is never used again.
  std::map<std::uint64_t, Held*> held_ ONCEBOX_GUARDED_BY(mutex_);
  std::uint64_t last_number_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  bool running_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool woken_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool stopped_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses the members above; set under the lock
};

}  // namespace oncebox::detail
