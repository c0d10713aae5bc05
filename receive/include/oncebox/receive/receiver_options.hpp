#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/idempotency_store.hpp"

namespace oncebox {

/// What to answer when the work of a key was done before (PKT-03).
enum class DuplicatePolicy {
  suppress,          ///< that it is a duplicate
  replay_completed,  ///< the stored result; that it is a duplicate when there is none to be read
};

/// What to do with a message that has no key (PKT-04).
enum class MissingKeyPolicy {
  reject,   ///< do not handle it
  process,  ///< handle it without protection
};

/// What to answer while somebody else works under the same key.
enum class RunningPolicy {
  /// That it is a duplicate of what runs. Who then forgets the message relies on the other one: if
  /// it dies, nobody brings the message again.
  suppress,
  /// Busy: come again. The choice where the sender repeats what was not answered.
  busy,
  /// Wait until the other one has ended, then answer as if it had come later. Busy when that takes
  /// longer than `wait_at_most`, or the caller's stop token is requested.
  wait,
};

/// How often a verdict is offered to a store that does not take it: for about 8.5 seconds, unless
/// told otherwise. The thread waits so long, and the key stays held meanwhile. Once a success was
/// offered in vain, the work is done again after the lease: better too long than too short.
struct VerdictTries {
  int count = 6;
  Duration first_pause{25};  ///< between the first two; then four times as long each time
};

struct ReceiverOptions {
  std::string name = "receiver";  ///< in every log line
  std::string owner = {};         ///< a label for people, stored with each key that is begun
  /// Stands before every key in the store; at most 255 bytes.
  ///
  /// **Give each receiver that shares a store one of its own**, such as "billing:". Without, two
  /// receivers that do different work for the same key hide each other's messages: what one has
  /// done is a duplicate to the other, or replayed to it with a result of another kind. No prefix
  /// should be the beginning of another one.
  std::string key_prefix = {};

  DuplicatePolicy on_duplicate = DuplicatePolicy::suppress;
  MissingKeyPolicy on_missing_key = MissingKeyPolicy::reject;
  FailedKeyPolicy on_failed = FailedKeyPolicy::retry;
  RunningPolicy on_running = RunningPolicy::suppress;
  Duration wait_at_most = std::chrono::seconds{30};

  Duration lease = defaults::kKeyLease;    ///< extended for as long as the handler runs
  std::optional<Duration> retention = {};  ///< of keys; nothing: the store's own
  VerdictTries verdict_tries = {};

  /// Throws `out_of_range`, naming the option.
  void validate() const;
};

}  // namespace oncebox
