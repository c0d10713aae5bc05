#include "oncebox/operate/dead_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "oncebox/defaults.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kMaxGroups = 10'000;
constexpr std::size_t kMaxGroupedRecords = 10'000'000;

/// Groups as they are met.
class Grouping {
 public:
  explicit Grouping(std::size_t max_groups) : max_groups_(max_groups) {}

  void add(const MessageRecord& record) {
    ++result_.messages;
    const TimePoint died_at = record.finished_at.value_or(record.history.last_seen_at);
    DeadGroupId id = dead_group_of(record);
    auto found = groups_.find(id);
    if (found == groups_.end()) {
      if (groups_.size() == max_groups_) {
        ++result_.others;
        return;
      }
      DeadGroup group{.id = id,
                      .error = clip_text(normalise_error(record), DeadGroup::kMaxErrorBytes),
                      .first_at = died_at,
                      .last_at = died_at,
                      .sample = record.key};
      found = groups_.emplace(std::move(id), std::move(group)).first;
    }
    DeadGroup& group = found->second;
    ++group.count;
    group.first_at = std::min(group.first_at, died_at);
    if (died_at > group.last_at) {
      group.last_at = died_at;
      group.sample = record.key;
    }
  }

  [[nodiscard]] std::size_t messages() const noexcept { return result_.messages; }

  DeadGroups take(bool complete) {
    for (auto& [id, group] : groups_) result_.groups.push_back(std::move(group));
    std::ranges::sort(result_.groups, [](const DeadGroup& a, const DeadGroup& b) {
      return a.count != b.count ? a.count > b.count : a.id < b.id;
    });
    result_.complete = complete;
    return std::move(result_);
  }

 private:
  const std::size_t max_groups_;
  std::map<DeadGroupId, DeadGroup> groups_;
  DeadGroups result_;
};

}  // namespace

DeadGroups group_dead(QueueOperator& queue, const DeadGroupsRequest& request,
                      const KeepGoing& keep_going) {
  require_in_range("max_groups", request.max_groups, 1, kMaxGroups);
  require_in_range("max_records", request.max_records, 1, kMaxGroupedRecords);
  const MessageFilter& filter = request.filter;
  if (!filter.statuses.empty() || !filter.states.empty() || !filter.waiting_for.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "only dead messages are grouped; name no status and no state");
  }
  ListRequest list{.filter = only_dead(filter),
                   .order = ListOrder::newest_first,
                   .max_bytes = defaults::kStepBytes};
  Grouping grouping(request.max_groups);
  for (;;) {
    if (keep_going && !keep_going()) return grouping.take(false);
    list.limit = std::min(limits::kMaxListItems, request.max_records - grouping.messages());
    MessagePage page = queue.list(list);
    for (const MessageRecord& record : page.records) grouping.add(record);
    if (!page.next) return grouping.take(true);
    if (grouping.messages() >= request.max_records) return grouping.take(false);
    list.after = std::move(page.next);
  }
}

}  // namespace oncebox
