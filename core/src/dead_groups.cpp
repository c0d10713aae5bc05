#include "oncebox/dead_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kFingerprintDigits = 16;
constexpr std::size_t kMaxGroups = 10'000;
constexpr std::size_t kMaxGroupedRecords = 10'000'000;

bool is_fingerprint(std::string_view text) {
  return text.size() == kFingerprintDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string_view error_of(const MessageRecord& record) {
  return record.history.last_error ? std::string_view(*record.history.last_error)
                                   : std::string_view();
}

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
      DeadGroup group{
          .id = id,
          .error = clip_text(normalise_error(error_of(record)), DeadGroup::kMaxErrorBytes),
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

std::string DeadGroupId::str() const {
  return topic ? fmt::format("{}:{}", topic->str(), fingerprint) : fingerprint;
}

DeadGroupId DeadGroupId::parse(std::string_view text) {
  const std::size_t at = text.size() - std::min(text.size(), kFingerprintDigits);
  const std::string_view fingerprint = text.substr(at);
  const std::string_view before = text.substr(0, at);
  if (!is_fingerprint(fingerprint) || (!before.empty() && !before.ends_with(':'))) {
    throw Error(ErrorCode::invalid_argument,
                "a group of dead messages is named by its topic, a colon and 16 hexadecimal "
                "digits, for example order.created:00ff17a92c03d5e8");
  }
  DeadGroupId id{.fingerprint = std::string(fingerprint)};
  if (!before.empty()) id.topic = Topic(std::string(before.substr(0, before.size() - 1)));
  return id;
}

bool DeadGroupId::contains(const MessageRecord& record) const {
  const bool same_topic = record.message ? topic && *topic == record.message->topic : !topic;
  return record.status == Status::dead && same_topic &&
         fingerprint == error_fingerprint(error_of(record));
}

DeadGroupId dead_group_of(const MessageRecord& record) {
  DeadGroupId id{.fingerprint = error_fingerprint(error_of(record))};
  if (record.message) id.topic = record.message->topic;
  return id;
}

DeadGroups group_dead(QueueOperator& queue, const DeadGroupsRequest& request,
                      const KeepGoing& keep_going) {
  require_in_range("max_groups", request.max_groups, 1, kMaxGroups);
  require_in_range("max_records", request.max_records, 1, kMaxGroupedRecords);
  if (!request.filter.statuses.empty()) {
    throw Error(ErrorCode::invalid_argument, "only dead messages are grouped; name no status");
  }
  ListRequest list{.filter = request.filter, .order = ListOrder::newest_first};
  list.filter.statuses = {Status::dead};
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
