#pragma once

#include <functional>
#include <optional>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::publish {

/// The calls of one kind to one store, by workers that all stores share: a store that hangs keeps
/// none of them for long. A call has a limit. After one that failed the store is left alone for a
/// moment, and then one worker at a time asks it, until it answers. Safe from any thread.
class BriefCalls {
 public:
  using Call = std::function<void(const CallOptions& call)>;

  /// The clock is borrowed.
  explicit BriefCalls(const Clock& clock) : clock_(clock) {}

  /// Makes the call. Throws `NotNow`, which counts no attempt, while the store is left alone, and
  /// when the call fails by what may pass.
  void make(Duration within, const Call& call);

 private:
  void require_answering() ONCEBOX_EXCLUDES(mutex_);
  void note_end(bool has_answered) noexcept ONCEBOX_EXCLUDES(mutex_);

  const Clock& clock_;
  detail::Mutex mutex_;
  /// How long the store is left alone; nothing: it answers.
  std::optional<SteadyTime> rests_until_ ONCEBOX_GUARDED_BY(mutex_);
  bool is_tried_ ONCEBOX_GUARDED_BY(mutex_) = false;  ///< by the worker that asks it again
};

}  // namespace oncebox::publish
