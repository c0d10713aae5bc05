#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/names.hpp"

namespace oncebox {

/// How an attempt to handle a message ended.
enum class AttemptOutcome {
  succeeded,    ///< acknowledged: the message is done
  abandoned,    ///< failed for now; when it was the last attempt, the message is dead
  failed,       ///< failed for good: the message is dead
  lapsed,       ///< the lease ran out without a settlement
  superseded,   ///< new content came meanwhile, so the verdict had no effect
  cancelled,    ///< an operator cancelled the message: it is dead
  marked_dead,  ///< somebody who did not have the lease marked the message as dead
};

[[nodiscard]] std::string_view to_string(AttemptOutcome outcome) noexcept;

/// One delivery of a message, and how it ended. A delivery that was released was no attempt.
/// One whose message somebody marked as processed meanwhile succeeded.
///
/// A message that succeeds at once has none: the first attempt that does not succeed is the first
/// to be kept, and from then on all of them are, a success included; of many the last ones.
struct Attempt {
  int number = 0;  ///< the first of the message is 1; a revival does not begin anew
  /// Nothing when the message was leased by a version of the library that did not keep it.
  std::optional<WorkerName> worker = {};
  std::optional<TimePoint> begun_at = {};
  TimePoint ended_at{};  ///< of one that lapsed, the end of its lease
  AttemptOutcome outcome = AttemptOutcome::succeeded;
  std::string error_kind = {};  ///< for example the type of an exception; empty: nobody said
  std::string error = {};       ///< empty: nobody said

  friend bool operator==(const Attempt&, const Attempt&) = default;
};

}  // namespace oncebox
