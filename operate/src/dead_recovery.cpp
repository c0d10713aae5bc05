#include "oncebox/operate/dead_recovery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "oncebox/defaults.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

/// Messages that one transaction revives or purges at most.
constexpr std::size_t kMaxSlice = 1'000;

MessageFilter filter_of(const DeadQuery& which) {
  require_in_range("limit", which.limit, 1, DeadQuery::kMaxLimit);
  if (!which.filter.statuses.empty() || !which.filter.states.empty() ||
      !which.filter.waiting_for.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "only dead messages can be revived or purged; name no status and no state");
  }
  MessageFilter filter = only_dead(which.filter);
  // The topic of the group, where the filter leaves it to us, spares a look at all the others.
  if (which.group && which.group->topic && !filter.topic) {
    filter.topic = TopicPattern(*which.group->topic);
  }
  return filter;
}

bool goes_on(const KeepGoing& keep_going) { return !keep_going || keep_going(); }

/// Those that are meant, page by page. Each is met once: what is revived and dies again is not
/// meant.
class DeadWalk {
 public:
  DeadWalk(QueueOperator& queue, const DeadQuery& which, const KeepGoing& keep_going)
      : queue_(queue), group_(which.group), keep_going_(keep_going), left_(which.limit) {
    request_.filter = filter_of(which);
    request_.limit = limits::kMaxListItems;
    request_.max_bytes = defaults::kStepBytes;
  }

  /// Up to so many keys; none at the end.
  std::vector<MessageKey> next(std::size_t count) {
    std::vector<MessageKey> keys;
    while (keys.size() < count && left_ > 0 && (at_ < page_.size() || read_page())) {
      const MessageRecord& record = page_[at_++];
      if (group_ && !group_->contains(record)) continue;
      if (record.finished_at) last_death_ = std::max(last_death_, *record.finished_at);
      keys.push_back(record.key);
      --left_;
    }
    return keys;
  }

  /// What those that were met match for as long as they do not die again.
  [[nodiscard]] MessageFilter still_meant() const {
    MessageFilter filter = request_.filter;
    const TimePoint later = last_death_ + Duration{1};
    filter.finished.until = std::min(filter.finished.until.value_or(later), later);
    return filter;
  }

 private:
  bool read_page() {
    while (!ended_) {
      if (!goes_on(keep_going_)) return false;
      MessagePage page = queue_.list(request_);
      page_ = std::move(page.records);
      at_ = 0;
      ended_ = !page.next;
      request_.after = std::move(page.next);
      if (!page_.empty()) return true;
    }
    return false;
  }

  QueueOperator& queue_;
  const std::optional<DeadGroupId> group_;
  const KeepGoing& keep_going_;
  std::size_t left_;
  ListRequest request_;
  std::vector<MessageRecord> page_;
  std::size_t at_ = 0;
  TimePoint last_death_{};
  bool ended_ = false;
};

/// As many as may be due together.
std::size_t slice_of(const RevivalPace& pace) {
  if (!pace.per_second) return kMaxSlice;
  (void)pace.length(0);  // a rate that makes no sense is refused
  const double whole_second = std::floor(*pace.per_second);
  return static_cast<std::size_t>(std::clamp(whole_second, 1.0, double{kMaxSlice}));
}

/// When the next is due after so many.
Duration due_after(std::size_t messages, const ReviveOptions& options, const RevivalPace& pace) {
  return options.delay + pace.length(messages + 1, options.delay);
}

/// Repeats `step`, which answers how many it changed and 0 at the end.
template <class Step>
std::size_t repeat(const KeepGoing& keep_going, Step step) {
  std::size_t changed = 0;
  try {
    do {
      const std::optional<std::size_t> more = step(changed);
      if (!more) break;
      changed += *more;
    } while (goes_on(keep_going));
  } catch (const Error& error) {
    if (changed == 0) throw;
    // Nobody may take it for a call that changed nothing.
    throw Error(ErrorCode::outcome_unknown,
                fmt::format("{} messages were changed, then: {}", changed, error.what()));
  }
  return changed;
}

std::size_t count_of(const std::vector<ReviveOutcome>& outcomes) {
  return static_cast<std::size_t>(std::ranges::count(outcomes, ReviveOutcome::revived));
}

}  // namespace

RevivalResult revive_dead(QueueOperator& queue, const DeadQuery& which,
                          const ReviveOptions& options, const RevivalPace& pace,
                          const KeepGoing& keep_going) {
  // Before the first is revived: whether they can be.
  if (pace.per_second) {
    (void)plan_revival(queue, which, options, pace, keep_going);
    if (!goes_on(keep_going)) return {};  // the plan may be that of a part only
  }
  const std::size_t slice = slice_of(pace);
  DeadWalk walk(queue, which, keep_going);
  RevivalResult result;
  const auto revive_slice = [&](std::size_t revived) -> std::optional<std::size_t> {
    const std::vector<MessageKey> keys = walk.next(slice);
    if (keys.empty()) return std::nullopt;
    ReviveOptions due = options;
    due.delay = due_after(revived, options, pace);
    const std::size_t count = count_of(queue.revive(keys, due));
    if (count > 0) result.lasts = due.delay;
    return count;
  };
  result.count = repeat(keep_going, revive_slice);
  return result;
}

std::vector<ReviveOutcome> revive_keys(QueueOperator& queue, std::span<const MessageKey> keys,
                                       const ReviveOptions& options, const RevivalPace& pace) {
  (void)due_after(keys.size(), options, pace);
  const std::size_t slice = slice_of(pace);
  std::vector<ReviveOutcome> outcomes;
  outcomes.reserve(keys.size());
  (void)repeat({}, [&](std::size_t revived) -> std::optional<std::size_t> {
    if (keys.empty()) return std::nullopt;
    const auto now = keys.subspan(0, std::min(slice, keys.size()));
    keys = keys.subspan(now.size());
    ReviveOptions due = options;
    due.delay = due_after(revived, options, pace);
    const std::vector<ReviveOutcome> some = queue.revive(now, due);
    outcomes.insert(outcomes.end(), some.begin(), some.end());
    return count_of(some);
  });
  return outcomes;
}

RevivalResult plan_revival(QueueOperator& queue, const DeadQuery& which,
                           const ReviveOptions& options, const RevivalPace& pace,
                           const KeepGoing& keep_going) {
  const std::size_t slice = slice_of(pace);
  const std::size_t count = count_dead(queue, which, keep_going);
  const std::size_t before_last_slice = count == 0 ? 0 : (count - 1) / slice * slice;
  return {.count = count,
          .lasts = count == 0 ? Duration{0} : due_after(before_last_slice, options, pace)};
}

std::size_t purge_dead(QueueOperator& queue, const DeadQuery& which, const PurgeOptions& options,
                       const KeepGoing& keep_going) {
  DeadWalk walk(queue, which, keep_going);
  return repeat(keep_going, [&](std::size_t) -> std::optional<std::size_t> {
    const std::vector<MessageKey> keys = walk.next(kMaxSlice);
    if (keys.empty()) return std::nullopt;
    const PurgeOptions those{.reason = options.reason, .only = walk.still_meant()};
    const std::vector<PurgeOutcome> outcomes = queue.purge(keys, those);
    return static_cast<std::size_t>(std::ranges::count(outcomes, PurgeOutcome::purged));
  });
}

std::size_t count_dead(QueueOperator& queue, const DeadQuery& which, const KeepGoing& keep_going) {
  MessageFilter filter = filter_of(which);
  if (!which.group) return std::min(which.limit, queue.count(filter));
  DeadWalk walk(queue, which, keep_going);
  std::size_t count = 0;
  for (;;) {
    const std::size_t more = walk.next(kMaxSlice).size();
    if (more == 0) return count;
    count += more;
  }
}

}  // namespace oncebox
