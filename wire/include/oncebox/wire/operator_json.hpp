#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "oncebox/dead_group.hpp"
#include "oncebox/dead_query.hpp"
#include "oncebox/queue_operator.hpp"

/// The bodies of what an operator does with a queue. Rules as in message_json.hpp.
namespace oncebox::wire {

/// A filter as JSON: `{"filter": {"status": ["Dead"], "state": ["Waiting"], "waitingFor":
/// ["Backoff"], "topic": "order.*", "source": …, "messageId": …, "partitionKey": …,
/// "errorContains": …, "firstSeenFrom": …, "firstSeenUntil": …, "finishedFrom": …, "finishedUntil":
/// …, "expiresAfter": …}}`, each of them optional. In a URL's query the same names are used,
/// several words with commas between, and `exactTopic` for a topic whose own name ends in `*`.
[[nodiscard]] std::string write_filter(const MessageFilter& filter);
[[nodiscard]] MessageFilter read_filter(std::string_view json);

/// One parameter of a query, decoded.
struct QueryParameter {
  std::string name;
  std::string value;
};

/// A list by its query parameters: those of a filter, `order` (OldestFirst, NewestFirst),
/// `payloads` (true, false), `after` and `limit`. Throws `invalid_argument` for an unknown or
/// repeated one.
[[nodiscard]] ListRequest read_list_query(std::span<const QueryParameter> parameters);
/// The same as text behind the `?`, escaped.
[[nodiscard]] std::string write_list_query(const ListRequest& request);

/// `{"count": 7}`
[[nodiscard]] std::string write_count(std::size_t count);
[[nodiscard]] std::size_t read_count(std::string_view json);

[[nodiscard]] std::string write_stats(const QueueStats& stats);
[[nodiscard]] QueueStats read_stats(std::string_view json);

/// Which topics a page of statistics has: in their order, the messages without one first.
struct StatsQuery {
  /// Behind this topic, which may be gone; an empty one stands for messages without one.
  std::optional<std::string> after = {};
  std::size_t limit = 1'000;  ///< at most so many
};
inline constexpr std::size_t kMaxStatsTopics = 10'000;

/// `after`, the `next` of a page, and `limit`. Throws `invalid_argument` as `read_list_query` does.
[[nodiscard]] StatsQuery read_stats_query(std::span<const QueryParameter> parameters);
[[nodiscard]] std::string write_stats_query(const StatsQuery& query);

struct StatsPage {
  std::vector<TopicStats> topics;
  std::optional<std::string> after;  ///< for the next page; nothing when this is the last one
};

/// `{"total": {…}, "topics": […], "next": "OmE="}`. The total is that of all pages.
[[nodiscard]] std::string write_stats_page(const QueueStats& all, const StatsQuery& query);
[[nodiscard]] StatsPage read_stats_page(std::string_view json);

/// Which messages a call means: these keys, or what matches a filter. `{"keys": […]}`, `{"filter":
/// {…}}`, or `{"all": true}`; none of them is an error, so that nobody changes everything by a
/// slip. Of the dead, `{"group": "order.created:00ff17a92c03d5e8"}` means a group, of which a
/// filter leaves a part.
using MessageSelection = std::variant<std::vector<MessageKey>, MessageFilter>;

/// Something that an operator does with messages: `{"keys": […], "limit": …, "dryRun": …, "reason":
/// …}`, and to reschedule also `"dueAt"`. Which action it is, the path says. A filter beside the
/// keys is `ActOptions::only`, also to purge.
struct ActCall {
  MessageSelection which;
  OperatorAction action;
  ActOptions options = {};
  std::size_t limit = 10'000;  ///< of a filter
  bool dry_run = false;        ///< only count
};

/// `action` is what the path says; the due time of a `Reschedule` is read.
[[nodiscard]] ActCall read_act(std::string_view json, OperatorAction action);
[[nodiscard]] std::string write_act(const ActCall& call);
/// By keys: `{"results": ["Changed", "Refused", "Unknown"], "count": 1}`.
[[nodiscard]] std::string write_acted(std::span<const ActOutcome> outcomes);
[[nodiscard]] std::vector<ActOutcome> read_acted(std::string_view json);

struct ReviveCall {
  MessageSelection which;
  ReviveOptions options = {};
  RevivalPace pace = {};
  std::optional<DeadGroupId> group = {};
  std::size_t limit = 10'000;  ///< of a filter
  bool dry_run = false;        ///< only count
};

struct PurgeCall {
  MessageSelection which;
  PurgeOptions options = {};
  std::optional<DeadGroupId> group = {};
  std::size_t limit = 10'000;
  bool dry_run = false;
};

[[nodiscard]] ReviveCall read_revive(std::string_view json);
[[nodiscard]] std::string write_revive(const ReviveCall& call);
[[nodiscard]] PurgeCall read_purge(std::string_view json);
[[nodiscard]] std::string write_purge(const PurgeCall& call);

/// By keys: `{"results": ["Revived", "NotDead", "Unknown"], "count": 1}`.
[[nodiscard]] std::string write_revived(std::span<const ReviveOutcome> outcomes);
[[nodiscard]] std::vector<ReviveOutcome> read_revived(std::string_view json);
[[nodiscard]] std::string write_purged(std::span<const PurgeOutcome> outcomes);
[[nodiscard]] std::vector<PurgeOutcome> read_purged(std::string_view json);
/// By a filter, or with a dry run: `{"count": 7, "dryRun": true}`.
[[nodiscard]] std::string write_matched(std::size_t count, bool dry_run);
/// At a rate: also `"lastsSeconds": 12.5`, from now until the last is due.
[[nodiscard]] std::string write_paced(const RevivalResult& result, bool dry_run);

struct CleanupCall {
  CleanupRequest queue = {};
  bool keys = true;  ///< also forgotten idempotency keys
};

/// `{"doneRetentionSeconds": …, "deadRetentionSeconds": …, "limit": …, "keys": …, "reason": …}`; a
/// dead retention of null says that dead messages are kept, whatever the default is.
[[nodiscard]] CleanupCall read_cleanup(std::string_view json, const CleanupRequest& defaults);
[[nodiscard]] std::string write_cleanup(const CleanupCall& call);
struct CleanedUp {
  CleanupResult queue = {};
  std::size_t keys_removed = 0;
};
[[nodiscard]] std::string write_cleaned_up(const CleanedUp& result);
[[nodiscard]] CleanedUp read_cleaned_up(std::string_view json);

/// `{"topic": "order.*", "reason"?: …}`, and the answer `{"paused": ["order.*"]}`.
struct TopicCall {
  TopicPattern topic;
  std::string reason = {};
};
[[nodiscard]] TopicCall read_topic_call(std::string_view json);
[[nodiscard]] std::string write_paused(std::span<const TopicPattern> patterns);

}  // namespace oncebox::wire
