#pragma once

#include <algorithm>
#include <compare>

#include "oncebox/clock.hpp"

namespace oncebox::detail {

/// A pause that doubles, from a first one to a longest one, until it is reset. A value: whoever
/// owns it guards it.
class Backoff {
 public:
  struct Bounds {
    Duration first;    ///< more than zero
    Duration longest;  ///< what is shorter than `first` counts as `first`
  };

  constexpr explicit Backoff(const Bounds& bounds)
      : first_(bounds.first),
        longest_(std::max(bounds.first, bounds.longest)),
        pause_(bounds.first) {}

  /// The pause to make now, however often it is asked for.
  [[nodiscard]] constexpr Duration pause() const noexcept { return pause_; }

  /// The next pause is twice as long, or the longest.
  constexpr void grow() noexcept { pause_ = pause_ > longest_ / 2 ? longest_ : pause_ * 2; }

  /// The pause to make now; the next one is longer.
  constexpr Duration take() noexcept {
    const Duration taken = pause_;
    grow();
    return taken;
  }

  /// The next pause is the first one again.
  constexpr void reset() noexcept { pause_ = first_; }

  friend constexpr auto operator<=>(const Backoff&, const Backoff&) = default;

 private:
  Duration first_;
  Duration longest_;
  Duration pause_;
};

}  // namespace oncebox::detail
