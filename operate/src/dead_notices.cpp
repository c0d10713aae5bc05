#include "oncebox/operate/dead_notices.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "oncebox/defaults.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

/// A death may be recorded so long after the time that it bears: transactions take their time, and
/// clocks differ.
constexpr Duration kLate = std::chrono::minutes{1};
constexpr std::size_t kMaxRemembered = 1'000;
/// In one look; more than that are not told one by one.
constexpr std::size_t kMaxDeathsPerLook = 100'000;

std::size_t id_of_death(const MessageRecord& record) {
  const std::hash<std::string> hash;
  const std::size_t source = hash(record.key.source.str());
  const std::size_t id = hash(record.key.message_id.str());
  const auto died = static_cast<std::size_t>(record.finished_at->time_since_epoch().count());
  return (source * 31 + id) * 0x9e3779b97f4a7c15U + died;
}

struct Known {
  DeadGroup group;
  std::size_t told = 0;  ///< the last threshold that was told
  std::optional<TimePoint> told_at = {};
};

/// One queue of one store. Locked, because a look that began before its store was removed may go on
/// beside the first look at another store of that name.
class QueueDeaths {
 public:
  explicit QueueDeaths(const DeadNoticesOptions& options) : options_(options) {}

  [[nodiscard]] std::vector<DeadNotice> look(const QueueLook& look) {
    const detail::Lock lock(mutex_);
    const bool is_first = !from_;
    forgotten_ = 0;
    tell_from_ = is_first ? look.now - options_.recent : TimePoint::min();
    if (look.stats.total().dead > 0) count_new(look);
    if (!from_) from_ = look.now - kLate;
    for (auto& [id, known] : groups_) {
      if (known.group.last_at < tell_from_) known.told = reached(known.group.count);
    }
    return due(look);
  }

 private:
  void count_new(const QueueLook& look) ONCEBOX_REQUIRES(mutex_) {
    ListRequest list{.filter = {.statuses = {Status::dead}},
                     .order = ListOrder::newest_first,
                     .limit = limits::kMaxListItems,
                     .max_bytes = defaults::kStepBytes};
    list.filter.finished.from = from_;
    TimePoint latest = from_ ? *from_ + kLate : look.now;
    for (std::size_t seen = 0; seen < kMaxDeathsPerLook;) {
      MessagePage page = look.operations.list(list);
      for (const MessageRecord& record : page.records) {
        latest = std::max(latest, std::min(*record.finished_at, look.now));
        if (seen_.emplace(id_of_death(record), *record.finished_at).second) count(record);
      }
      seen += page.records.size();
      if (!page.next) break;
      list.after = std::move(page.next);
    }
    // Those from before are not asked for again.
    from_ = latest - kLate;
    std::erase_if(seen_, [from = *from_](const auto& entry) { return entry.second < from; });
  }

  void count(const MessageRecord& record) ONCEBOX_REQUIRES(mutex_) {
    DeadGroupId id = dead_group_of(record);
    const TimePoint died_at = *record.finished_at;
    auto found = groups_.find(id);
    const bool begins_anew =
        found != groups_.end() && died_at - found->second.group.last_at >= options_.forget_after;
    if (begins_anew) {
      groups_.erase(found);
      found = groups_.end();
    }
    if (found == groups_.end()) {
      make_room();
      Known known{.group = {.id = id,
                            .error = clip_text(normalise_error(record), DeadGroup::kMaxErrorBytes),
                            .first_at = died_at,
                            .last_at = died_at,
                            .sample = record.key}};
      found = groups_.emplace(std::move(id), std::move(known)).first;
    }
    DeadGroup& group = found->second.group;
    ++group.count;
    group.first_at = std::min(group.first_at, died_at);
    if (died_at >= group.last_at) {
      group.last_at = died_at;
      group.sample = record.key;
    }
  }

  void make_room() ONCEBOX_REQUIRES(mutex_) {
    if (groups_.size() < kMaxRemembered) return;
    const auto oldest = std::ranges::min_element(
        groups_, {}, [](const auto& entry) { return entry.second.group.last_at; });
    const Known& known = oldest->second;
    if (known.group.last_at >= tell_from_ && reached(known.group.count) > known.told) ++forgotten_;
    groups_.erase(oldest);
  }

  [[nodiscard]] std::size_t reached(std::size_t count) const {
    std::size_t highest = 0;
    for (const std::size_t threshold : options_.thresholds) {
      if (threshold <= count) highest = threshold;
    }
    return highest;
  }

  [[nodiscard]] std::vector<DeadNotice> due(const QueueLook& look) ONCEBOX_REQUIRES(mutex_) {
    std::vector<DeadNotice> notices;
    for (auto& [id, known] : groups_) {
      const std::size_t threshold = reached(known.group.count);
      const bool is_cool = !known.told_at || look.now - *known.told_at >= options_.cooldown;
      if (threshold <= known.told || !is_cool) continue;
      known.told = threshold;
      known.told_at = look.now;
      notices.push_back({look.store, std::string(look.queue), known.group, threshold});
    }
    const bool fits = notices.size() <= options_.max_notices && forgotten_ == 0;
    if (notices.empty() || fits) return notices;
    std::ranges::sort(notices, [](const DeadNotice& a, const DeadNotice& b) {
      const bool same = a.group.count == b.group.count;
      return same ? a.group.id < b.group.id : a.group.count > b.group.count;
    });
    const std::size_t told = std::min(notices.size(), options_.max_notices);
    const std::size_t more = notices.size() - told + forgotten_;
    notices.erase(notices.begin() + static_cast<std::ptrdiff_t>(told), notices.end());
    notices.back().more_groups = more;
    return notices;
  }

  const DeadNoticesOptions& options_;
  detail::Mutex mutex_;
  /// Groups that should be told at this look, and had no room.
  std::size_t forgotten_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  /// Deaths before it are not told at this look.
  TimePoint tell_from_ ONCEBOX_GUARDED_BY(mutex_){};
  /// Deaths from then on are asked for.
  std::optional<TimePoint> from_ ONCEBOX_GUARDED_BY(mutex_);
  /// The deaths among them that are counted, by id, with their times.
  std::unordered_map<std::size_t, TimePoint> seen_ ONCEBOX_GUARDED_BY(mutex_);
  std::map<DeadGroupId, Known> groups_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace

void DeadNoticesOptions::validate() const {
  require_in_range("cooldown", cooldown, Duration{0}, std::chrono::days{365});
  require_in_range("forget_after", forget_after, Duration{1}, std::chrono::days{365});
  require_in_range("recent", recent, Duration{0}, std::chrono::days{365});
  require_in_range("max_notices", max_notices, 1, kMaxRemembered);
  require_in_range("number of thresholds", thresholds.size(), 1, 100);
  const bool ascends =
      std::ranges::adjacent_find(thresholds, std::ranges::greater_equal{}) == thresholds.end();
  if (!ascends || thresholds.front() == 0) {
    throw Error(ErrorCode::invalid_argument, "thresholds must grow, from at least 1");
  }
}

class DeadNotices::Impl {
 public:
  Impl(const DeadNoticesOptions& options, DeadNoticeSink& sink) : options_(options), sink_(sink) {
    options_.validate();
  }

  void on_look(const QueueLook& look) {
    const std::shared_ptr<QueueDeaths> queue = find(look.store, std::string(look.queue));
    for (const DeadNotice& notice : queue->look(look)) sink_.on_notice(notice);
  }

  void on_removed(const std::string& store) {
    const detail::Lock lock(mutex_);
    std::erase_if(queues_, [&](const auto& known) { return known.first.first == store; });
  }

 private:
  std::shared_ptr<QueueDeaths> find(const std::string& store, const std::string& queue) {
    const detail::Lock lock(mutex_);
    std::shared_ptr<QueueDeaths>& found = queues_[{store, queue}];
    if (!found) found = std::make_shared<QueueDeaths>(options_);
    return found;
  }

  const DeadNoticesOptions options_;
  DeadNoticeSink& sink_;
  detail::Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<QueueDeaths>> queues_
      ONCEBOX_GUARDED_BY(mutex_);
};

DeadNotices::DeadNotices(const DeadNoticesOptions& options, DeadNoticeSink& sink)
    : impl_(std::make_unique<Impl>(options, sink)) {}

DeadNotices::~DeadNotices() = default;

void DeadNotices::on_look(const QueueLook& look) { impl_->on_look(look); }

void DeadNotices::on_removed(const std::string& store) noexcept { impl_->on_removed(store); }

}  // namespace oncebox
