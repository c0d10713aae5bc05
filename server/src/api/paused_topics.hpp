#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/topic_pattern.hpp"

namespace oncebox::server {

/// The topics of one queue that are not handed out for now. In memory only: after a restart the
/// ones of the configuration are paused again. Safe from any thread.
class PausedTopics {
 public:
  static constexpr std::size_t kMaxPatterns = 1'000;

  using Patterns = std::vector<TopicPattern>;
  using Snapshot = std::shared_ptr<const Patterns>;

  /// Pausing again changes nothing. Throws `overloaded` when there are too many.
  void pause(const TopicPattern& pattern);
  /// Takes back a pause of this very pattern; false when there was none.
  bool resume(const TopicPattern& pattern);

  /// Never null. Two of them are the same object while nothing changes.
  [[nodiscard]] Snapshot current() const;

 private:
  mutable detail::Mutex mutex_;
  Snapshot patterns_ ONCEBOX_GUARDED_BY(mutex_) = std::make_shared<const Patterns>();
};

/// Those of the wanted topics that are not paused, however specific the wish is; nothing when none
/// is left.
[[nodiscard]] std::optional<TopicSelection> without_paused(TopicSelection wanted,
                                                           const PausedTopics::Patterns& paused);

[[nodiscard]] bool is_paused(const PausedTopics::Patterns& paused, std::string_view topic) noexcept;

}  // namespace oncebox::server
