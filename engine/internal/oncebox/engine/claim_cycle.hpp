#pragma once

#include <compare>
#include <optional>

#include "oncebox/clock.hpp"
#include "oncebox/internal/backoff.hpp"

namespace oncebox::engine {

/// Decides when to claim from a queue again. It has neither threads nor locks and calls nothing: a
/// driver tells it what happened, asks for the next step, and takes it.
///
///     const auto step = cycle.next(now);
///     if (step.claims()) {
///       cycle.begin(step.what, now);
///       ...                                  // ask `next_due` if the step says so, then claim
///       cycle.found({...}, later);           // or `failed`
///     } else {
///       ...                                  // sleep until `step.until`, or until news comes
///     }
///
/// **Nothing is forgotten.** It waits only after a claim that asked for the next due time first,
/// found nothing, and began after the last news. A message that becomes due between the question
/// and the claim is claimed; one that is due later is in the answer. A due time is used for the
/// wait that follows the question and for nothing else: after a claim that found something it is
/// stale.
///
/// **Nothing is asked in vain.** Without news it looks at the times it knows of and at polls, which
/// become rarer while they find nothing. After a failure it leaves the store alone for a while,
/// whatever the news.
///
/// A value. Not safe to use from several threads: the driver guards it.
class ClaimCycle {
 public:
  struct Settings {
    Duration poll;          ///< how soon to look for what nobody announced; more than zero
    Duration longest_poll;  ///< the same, after many polls in vain
    Duration longest_rest;  ///< after many failures; the first rest is `kFirstRest`
  };
  static constexpr Duration kFirstRest{100};
  /// How soon to look again when a message is due by our clock and cannot be claimed, because the
  /// store's clock is behind. Doubles.
  static constexpr Duration kFirstClockPause{20};

  /// Due times are told by the wall clock, pauses by the steady one.
  struct Now {
    TimePoint wall;
    SteadyTime steady;

    [[nodiscard]] static Now of(const Clock& clock) { return {clock.now(), clock.steady()}; }
    friend auto operator<=>(const Now&, const Now&) = default;
  };

  enum class Do {
    claim,              ///< without a question: there is probably something
    ask_due_and_claim,  ///< in this order
    wait,               ///< until the time, or until the cycle is told of something
    rest,               ///< the same, but only `on_look` can end it earlier
  };
  struct Step {
    Do what;
    SteadyTime until = SteadyTime::max();  ///< of `wait` and `rest`

    [[nodiscard]] bool claims() const noexcept {
      return what == Do::claim || what == Do::ask_due_and_claim;
    }
  };

  /// Begins with a claim.
  explicit ClaimCycle(const Settings& settings);

  /// Changes nothing, so it may be asked at any time. While a claim is under way, it is to wait.
  [[nodiscard]] Step next(SteadyTime now) const;

  // What happened. If a claim is under way, it is considered when the claim has ended.

  /// The store says that there may be something to claim.
  void on_news() noexcept;
  /// A message will be claimable at this time, which the store did not say before. Does not
  /// postpone the poll, so this is also how to tell that a lease was handed over, and when it ends.
  void on_due(TimePoint time, const Now& now) noexcept;
  /// A limit that left no room for some topics has room again.
  void on_eased() noexcept;
  /// Somebody wants it to look now. A claim that begins after this follows, even after a failure.
  void on_look() noexcept;

  // The claim. One is under way at a time.

  /// `what` is the step; a driver may always ask for the due time, too.
  void begin(Do what, const Now& now) noexcept;

  enum class Claimed {
    nothing,
    some,  ///< fewer than wanted: probably nothing is left
    full,  ///< as many as wanted, or there was no room for more: probably something is left
  };
  struct Found {
    Claimed claimed = Claimed::nothing;
    bool lacks_room = false;            ///< limits left some topics out
    TimePoint room_at = kMaxTime;       ///< when a limit will have room by itself
    std::optional<TimePoint> due = {};  ///< the answer to the question, if it was asked
  };
  void found(const Found& found, const Now& now) noexcept;

  /// The claim, or the question before it, failed. Answers how long it rests; zero when a look that
  /// was asked for meanwhile ends the rest at once.
  Duration failed(const Now& now) noexcept;

  friend auto operator<=>(const ClaimCycle&, const ClaimCycle&) = default;

 private:
  void wait(const Found& found, const Now& now) noexcept;

  detail::Backoff poll_;
  detail::Backoff rest_;
  detail::Backoff clock_pause_;

  Do next_ = Do::claim;  // `wait` and `rest`: until their time
  SteadyTime until_{};
  SteadyTime poll_at_{};                     // of the last wait
  SteadyTime clock_pause_ends_at_{};         // the same
  SteadyTime told_due_ = SteadyTime::max();  // told since the last claim began
  bool lacks_room_ = false;                  // found by the last claim

  // The claim under way.
  bool is_claiming_ = false;
  bool has_asked_ = false;
  bool heard_news_ = false;
  bool heard_ease_ = false;
  bool heard_look_ = false;
  TimePoint began_at_{};
};

}  // namespace oncebox::engine
