#include "oncebox/wire/operator_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "batch_json.hpp"
#include "message_fields.hpp"
#include "oncebox/wire/encoding.hpp"
#include "query.hpp"
#include "topics_json.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 13> kFilterFields = {
    "status",       "state",         "waitingFor",    "topic",         "source",
    "messageId",    "partitionKey",  "errorContains", "firstSeenFrom", "firstSeenUntil",
    "finishedFrom", "finishedUntil", "expiresAfter",
};
constexpr std::array<std::string_view, 1> kFilterField = {"filter"};
constexpr std::array<std::string_view, 1> kCountField = {"count"};
constexpr std::array<std::string_view, 2> kStatsPageFields = {"topics", "next"};
constexpr std::array<std::string_view, 2> kStatsParameters = {"after", "limit"};
/// Before the topic in a cursor, so that messages without one have a cursor, too.
constexpr char kStatsCursor = ':';
constexpr std::array<std::string_view, 10> kTopicStatsFields = {
    "topic",  "seen", "waiting", "waitingFor",    "ready",
    "leased", "done", "dead",    "oldestReadyAt", "oldestDeadAt",
};
constexpr std::array<std::string_view, 5> kWaitingCountsFields = {"content", "partition", "due",
                                                                  "backoff", "pause"};
constexpr std::array<std::string_view, 6> kActFields = {"keys",  "filter", "all",
                                                        "limit", "dryRun", "reason"};
constexpr auto kRescheduleFields = joined(kActFields, std::array<std::string_view, 1>{"dueAt"});
constexpr auto kDeadFields = joined(kActFields, std::array<std::string_view, 1>{"group"});
constexpr auto kReviveFields =
    joined(kDeadFields, std::array<std::string_view, 2>{"delaySeconds", "perSecond"});
constexpr std::array<std::string_view, 5> kCleanupFields = {
    "doneRetentionSeconds", "deadRetentionSeconds", "limit", "keys", "reason",
};
constexpr std::array<std::string_view, 3> kCleanedUpFields = {"doneRemoved", "deadRemoved",
                                                              "keysRemoved"};
constexpr std::array<std::string_view, 2> kTopicCallFields = {"topic", "reason"};

// A word, or an array of words.
template <class Enum>
std::vector<Enum> read_any_of(const ObjectReader& fields, std::string_view name) {
  const std::optional<JsonValue> value = fields.find(name);
  if (!value) return {};
  if (value->is_string()) return {read_word<Enum>(*value)};
  return read_array<Enum>(*value, [](const JsonValue& word) { return read_word<Enum>(word); });
}

template <class Enum>
void write_any_of(JsonWriter& writer, std::string_view name, const std::vector<Enum>& values) {
  if (values.empty()) return;
  writer.key(name).begin_array();
  for (const Enum value : values) writer.value(word_of(value));
  writer.end_array();
}

void write_filter(JsonWriter& writer, const MessageFilter& filter) {
  writer.begin_object();
  write_any_of(writer, "status", filter.statuses);
  write_any_of(writer, "state", filter.states);
  write_any_of(writer, "waitingFor", filter.waiting_for);
  if (filter.topic) write_pattern(writer.key("topic"), *filter.topic);
  writer.field("source", filter.source)
      .field("messageId", filter.message_id)
      .field("partitionKey", filter.partition_key);
  if (filter.error_contains) {
    // Stored errors are valid UTF-8; what is not matches none of them.
    writer.field("errorContains", clip_text(*filter.error_contains, limits::kMaxErrorBytes));
  }
  writer.field("firstSeenFrom", filter.first_seen.from)
      .field("firstSeenUntil", filter.first_seen.until)
      .field("finishedFrom", filter.finished.from)
      .field("finishedUntil", filter.finished.until)
      .field("expiresAfter", filter.expires_after)
      .end_object();
}

MessageFilter read_filter(const JsonValue& value) {
  const ObjectReader fields(value, kFilterFields, Direction::request);
  MessageFilter filter{
      .statuses = read_any_of<Status>(fields, "status"),
      .states = read_any_of<State>(fields, "state"),
      .waiting_for = read_any_of<WaitingFor>(fields, "waitingFor"),
      .topic = {},
      .source = fields.get<Source>("source"),
      .message_id = fields.get<MessageId>("messageId"),
      .partition_key = fields.get<PartitionKey>("partitionKey"),
      .error_contains = fields.get<std::string>("errorContains"),
      .first_seen = {fields.get<TimePoint>("firstSeenFrom"),
                     fields.get<TimePoint>("firstSeenUntil")},
      .finished = {fields.get<TimePoint>("finishedFrom"), fields.get<TimePoint>("finishedUntil")},
      .expires_after = fields.get<TimePoint>("expiresAfter")};
  if (const std::optional<JsonValue> topic = fields.find("topic")) {
    filter.topic = read_pattern(*topic, Direction::request);
  }
  return filter;
}

void write_selection(JsonWriter& writer, const MessageSelection& which) {
  if (const auto* const keys = std::get_if<std::vector<MessageKey>>(&which)) {
    writer.key("keys").begin_array();
    for (const MessageKey& key : *keys) {
      writer.begin_object();
      write_key(writer, key);
      writer.end_object();
    }
    writer.end_array();
    return;
  }
  write_filter(writer.key("filter"), std::get<MessageFilter>(which));
}

bool is_empty(const MessageFilter& filter) {
  return filter.statuses.empty() && filter.states.empty() && filter.waiting_for.empty() &&
         !filter.topic && !filter.source && !filter.message_id && !filter.partition_key &&
         !filter.error_contains && !filter.first_seen.from && !filter.first_seen.until &&
         !filter.finished.from && !filter.finished.until && !filter.expires_after;
}

MessageFilter read_narrow_filter(const JsonValue& value) {
  MessageFilter filter = read_filter(value);
  if (is_empty(filter)) value.place().fail("an empty filter means all; say all: true");
  return filter;
}

// `ways` are the fields that say which messages are meant. Where there is a place for it, a filter
// may go with keys.
MessageSelection read_selection(const ObjectReader& fields, std::string_view ways,
                                std::optional<MessageFilter>* only = nullptr) {
  const std::optional<JsonValue> keys = fields.find("keys");
  const std::optional<JsonValue> filter = fields.find("filter");
  const bool all = fields.get_or("all", false);
  const bool narrows = only != nullptr && keys && filter;
  if (static_cast<int>(keys.has_value()) + static_cast<int>(filter && !narrows) +
          static_cast<int>(all) !=
      1) {
    fields.place().fail(fmt::format("say which messages are meant, by one of {}", ways));
  }
  if (all) return MessageFilter{};
  if (filter && !narrows) return read_narrow_filter(*filter);
  if (narrows) *only = read_narrow_filter(*filter);
  return read_array<MessageKey>(*keys, [](const JsonValue& value) {
    return read_key(ObjectReader(value, kKeyFields, Direction::request));
  });
}

MessageSelection read_dead_selection(const ObjectReader& fields,
                                     std::optional<MessageFilter>* only = nullptr) {
  const bool is_group = fields.find("group").has_value();
  const bool has_filter = fields.find("filter").has_value();
  const bool has_others = fields.find("keys") || fields.get_or("all", false);
  if (is_group && !has_filter && !has_others) return MessageFilter{};
  MessageSelection which = read_selection(fields, "keys, filter, group, and all: true", only);
  if (is_group && (!has_filter || has_others)) {
    fields.place().fail("only a filter goes with a group");
  }
  return which;
}

std::optional<DeadGroupId> read_group(const ObjectReader& fields) {
  const std::optional<JsonValue> group = fields.find("group");
  if (!group) return std::nullopt;
  return reading_at(group->place(), [&] { return DeadGroupId::parse(group->text()); });
}

bool means_all(const MessageSelection& which) {
  const MessageFilter* const filter = std::get_if<MessageFilter>(&which);
  return filter != nullptr && is_empty(*filter);
}

template <class Call>
void write_extent(JsonWriter& writer, const Call& call) {
  writer.field("limit", call.limit);
  if (call.dry_run) writer.field("dryRun", true);
}

// Writes what revive and purge share, and leaves the object open.
template <class Call>
void write_dead_call(JsonWriter& writer, const Call& call) {
  writer.begin_object();
  if (call.group) writer.field("group", call.group->str());
  if (!means_all(call.which)) {
    write_selection(writer, call.which);
  } else if (!call.group) {
    writer.field("all", true);
  }
  write_extent(writer, call);
}

// An empty one says nothing.
void write_only(JsonWriter& writer, const std::optional<MessageFilter>& only) {
  if (only && !is_empty(*only)) write_filter(writer.key("filter"), *only);
}

void write_reason(JsonWriter& writer, const std::string& reason) {
  if (!reason.empty()) writer.field("reason", clip_text(reason, limits::kMaxReasonBytes));
}

template <class Outcome>
std::string write_outcomes(std::span<const Outcome> outcomes, Outcome counted) {
  JsonWriter writer;
  writer.begin_object().key("results").begin_array();
  for (const Outcome outcome : outcomes) writer.value(word_of(outcome));
  writer.end_array()
      .field("count", std::count(outcomes.begin(), outcomes.end(), counted))
      .end_object();
  return std::move(writer).take();
}

void write_waiting_counts(JsonWriter& writer, const WaitingCounts& counts) {
  writer.begin_object()
      .field("content", counts.content)
      .field("partition", counts.partition)
      .field("due", counts.due)
      .field("backoff", counts.backoff)
      .field("pause", counts.pause)
      .end_object();
}

WaitingCounts read_waiting_counts(const JsonValue& value) {
  const ObjectReader fields(value, kWaitingCountsFields, Direction::answer);
  return {.content = fields.require_as<std::size_t>("content"),
          .partition = fields.require_as<std::size_t>("partition"),
          .due = fields.require_as<std::size_t>("due"),
          .backoff = fields.require_as<std::size_t>("backoff"),
          .pause = fields.require_as<std::size_t>("pause")};
}

void write_topic_stats(JsonWriter& writer, const TopicStats& stats) {
  writer.begin_object()
      .field("topic", stats.topic)
      .field("seen", stats.seen)
      .field("waiting", stats.waiting.total());
  write_waiting_counts(writer.key("waitingFor"), stats.waiting);
  writer.field("ready", stats.ready)
      .field("leased", stats.leased)
      .field("done", stats.done)
      .field("dead", stats.dead)
      .field("oldestReadyAt", stats.oldest_ready_at)
      .field("oldestDeadAt", stats.oldest_dead_at)
      .end_object();
}

TopicStats read_topic_stats(const JsonValue& value) {
  const ObjectReader fields(value, kTopicStatsFields, Direction::answer);
  return {.topic = fields.get<Topic>("topic"),
          .seen = fields.require_as<std::size_t>("seen"),
          .waiting = read_waiting_counts(fields.require("waitingFor")),
          .ready = fields.require_as<std::size_t>("ready"),
          .leased = fields.require_as<std::size_t>("leased"),
          .done = fields.require_as<std::size_t>("done"),
          .dead = fields.require_as<std::size_t>("dead"),
          .oldest_ready_at = fields.get<TimePoint>("oldestReadyAt"),
          .oldest_dead_at = fields.get<TimePoint>("oldestDeadAt")};
}

std::string stats_cursor(std::string_view topic) {
  return to_base64(kStatsCursor + std::string(topic));
}

std::string stats_cursor(const TopicStats& last) {
  return stats_cursor(last.topic ? std::string_view(last.topic->str()) : std::string_view());
}

std::string parse_stats_cursor(const std::string& cursor, const Place& place) {
  const std::optional<std::string> text = from_base64(cursor);
  if (!text || !text->starts_with(kStatsCursor)) place.fail("this is not the `next` of a page");
  return text->substr(1);
}

}  // namespace

std::string write_filter(const MessageFilter& filter) {
  JsonWriter writer;
  writer.begin_object();
  write_filter(writer.key("filter"), filter);
  return std::move(writer.end_object()).take();
}

MessageFilter read_filter(std::string_view json) {
  return read_object(json, kFilterField, Direction::request, [](const ObjectReader& fields) {
    const std::optional<JsonValue> filter = fields.find("filter");
    return filter ? read_filter(*filter) : MessageFilter{};
  });
}

std::string write_count(std::size_t count) {
  JsonWriter writer;
  writer.begin_object().field("count", count).end_object();
  return std::move(writer).take();
}

std::size_t read_count(std::string_view json) {
  return read_object(json, kCountField, Direction::answer, [](const ObjectReader& fields) {
    return fields.require_as<std::size_t>("count");
  });
}

std::string write_stats(const QueueStats& stats) {
  return write_stats_page(stats, {.limit = stats.topics.size()});
}

QueueStats read_stats(std::string_view json) { return {std::move(read_stats_page(json).topics)}; }

std::string write_stats_page(const QueueStats& all, const StatsQuery& query) {
  const auto is_behind = [&](const TopicStats& stats) {
    return !query.after || (stats.topic && stats.topic->str() > *query.after);
  };
  const auto first = std::ranges::find_if(all.topics, is_behind);
  const auto behind = static_cast<std::size_t>(all.topics.end() - first);
  const std::span<const TopicStats> page(first, std::min(behind, query.limit));
  JsonWriter writer;
  writer.begin_object();
  write_topic_stats(writer.key("total"), all.total());
  writer.key("topics").begin_array();
  for (const TopicStats& topic : page) write_topic_stats(writer, topic);
  writer.end_array();
  if (page.size() < behind) writer.field("next", stats_cursor(page.back()));
  return std::move(writer.end_object()).take();
}

StatsPage read_stats_page(std::string_view json) {
  return read_object(json, kStatsPageFields, Direction::answer, [](const ObjectReader& fields) {
    StatsPage page;
    fields.require("topics").for_each_item(
        std::numeric_limits<std::size_t>::max(),
        [&](const JsonValue& value) { page.topics.push_back(read_topic_stats(value)); });
    if (const std::optional<std::string> next = fields.get<std::string>("next")) {
      page.after = parse_stats_cursor(*next, Place(fields.place(), "next"));
    }
    return page;
  });
}

StatsQuery read_stats_query(std::span<const QueryParameter> parameters) {
  const Query query(parameters, kStatsParameters);
  StatsQuery page;
  page.after = query.get("after", parse_stats_cursor);
  page.limit = query.get("limit", parse_limit).value_or(page.limit);
  require_in_range("limit", page.limit, 1, kMaxStatsTopics);
  return page;
}

std::string write_stats_query(const StatsQuery& query) {
  QueryText text;
  if (query.after) text.add("after", stats_cursor(*query.after));
  text.add("limit", std::to_string(query.limit));
  return std::move(text).take();
}

ActCall read_act(std::string_view json, OperatorAction action) {
  auto* const reschedule = std::get_if<Reschedule>(&action);
  const std::span<const std::string_view> known =
      reschedule != nullptr ? std::span<const std::string_view>(kRescheduleFields)
                            : std::span<const std::string_view>(kActFields);
  return read_object(json, known, Direction::request, [&](const ObjectReader& fields) {
    if (reschedule != nullptr) reschedule->due_at = fields.require_as<TimePoint>("dueAt");
    ActCall call{.which = MessageFilter{}, .action = action};
    call.which = read_selection(fields, "keys, filter, and all: true", &call.options.only);
    call.options.reason = fields.get_or("reason", call.options.reason);
    call.limit = fields.get_or("limit", call.limit);
    call.dry_run = fields.get_or("dryRun", call.dry_run);
    return call;
  });
}

std::string write_act(const ActCall& call) {
  JsonWriter writer;
  writer.begin_object();
  if (means_all(call.which)) {
    writer.field("all", true);
  } else {
    write_selection(writer, call.which);
  }
  write_only(writer, call.options.only);
  if (const auto* const reschedule = std::get_if<Reschedule>(&call.action)) {
    writer.field("dueAt", reschedule->due_at);
  }
  write_extent(writer, call);
  write_reason(writer, call.options.reason);
  return std::move(writer.end_object()).take();
}

std::string write_acted(std::span<const ActOutcome> outcomes) {
  return write_outcomes(outcomes, ActOutcome::changed);
}

std::vector<ActOutcome> read_acted(std::string_view json) { return read_words<ActOutcome>(json); }

ReviveCall read_revive(std::string_view json) {
  return read_object(json, kReviveFields, Direction::request, [](const ObjectReader& fields) {
    ReviveCall call{.which = read_dead_selection(fields)};
    call.options.delay = fields.get_or("delaySeconds", call.options.delay);
    call.options.reason = fields.get_or("reason", call.options.reason);
    call.pace.per_second = fields.get<double>("perSecond");
    call.group = read_group(fields);
    call.limit = fields.get_or("limit", call.limit);
    call.dry_run = fields.get_or("dryRun", call.dry_run);
    return call;
  });
}

std::string write_revive(const ReviveCall& call) {
  JsonWriter writer;
  write_dead_call(writer, call);
  if (call.pace.per_second) writer.field("perSecond", *call.pace.per_second);
  if (call.options.delay > Duration{0}) writer.field("delaySeconds", call.options.delay);
  write_reason(writer, call.options.reason);
  return std::move(writer.end_object()).take();
}

PurgeCall read_purge(std::string_view json) {
  return read_object(json, kDeadFields, Direction::request, [](const ObjectReader& fields) {
    PurgeCall call{.which = MessageFilter{}};
    call.which = read_dead_selection(fields, &call.options.only);
    call.options.reason = fields.get_or("reason", call.options.reason);
    call.group = read_group(fields);
    call.limit = fields.get_or("limit", call.limit);
    call.dry_run = fields.get_or("dryRun", call.dry_run);
    return call;
  });
}

std::string write_purge(const PurgeCall& call) {
  JsonWriter writer;
  write_dead_call(writer, call);
  write_only(writer, call.options.only);
  write_reason(writer, call.options.reason);
  return std::move(writer.end_object()).take();
}

std::string write_revived(std::span<const ReviveOutcome> outcomes) {
  return write_outcomes(outcomes, ReviveOutcome::revived);
}

std::vector<ReviveOutcome> read_revived(std::string_view json) {
  return read_words<ReviveOutcome>(json);
}

std::string write_purged(std::span<const PurgeOutcome> outcomes) {
  return write_outcomes(outcomes, PurgeOutcome::purged);
}

std::vector<PurgeOutcome> read_purged(std::string_view json) {
  return read_words<PurgeOutcome>(json);
}

std::string write_matched(std::size_t count, bool dry_run) {
  JsonWriter writer;
  writer.begin_object().field("count", count).field("dryRun", dry_run).end_object();
  return std::move(writer).take();
}

std::string write_paced(const RevivalResult& result, bool dry_run) {
  JsonWriter writer;
  writer.begin_object()
      .field("count", result.count)
      .field("dryRun", dry_run)
      .field("lastsSeconds", result.lasts)
      .end_object();
  return std::move(writer).take();
}

CleanupCall read_cleanup(std::string_view json, const CleanupRequest& defaults) {
  return read_object(json, kCleanupFields, Direction::request, [&](const ObjectReader& fields) {
    CleanupCall call{.queue = defaults};
    call.queue.done_retention = fields.get_or("doneRetentionSeconds", defaults.done_retention);
    if (fields.find_even_null("deadRetentionSeconds")) {
      call.queue.dead_retention = fields.get<Duration>("deadRetentionSeconds");
    }
    call.queue.limit = fields.get_or("limit", defaults.limit);
    call.queue.reason = fields.get_or("reason", defaults.reason);
    call.keys = fields.get_or("keys", call.keys);
    return call;
  });
}

std::string write_cleanup(const CleanupCall& call) {
  JsonWriter writer;
  writer.begin_object()
      .field("doneRetentionSeconds", call.queue.done_retention)
      .key("deadRetentionSeconds");
  if (call.queue.dead_retention) {
    writer.value(*call.queue.dead_retention);
  } else {
    writer.null();
  }
  writer.field("limit", call.queue.limit).field("keys", call.keys);
  write_reason(writer, call.queue.reason);
  return std::move(writer.end_object()).take();
}

std::string write_cleaned_up(const CleanedUp& result) {
  JsonWriter writer;
  writer.begin_object()
      .field("doneRemoved", result.queue.done_removed)
      .field("deadRemoved", result.queue.dead_removed)
      .field("keysRemoved", result.keys_removed)
      .end_object();
  return std::move(writer).take();
}

CleanedUp read_cleaned_up(std::string_view json) {
  return read_object(json, kCleanedUpFields, Direction::answer, [](const ObjectReader& fields) {
    return CleanedUp{.queue = {.done_removed = fields.require_as<std::size_t>("doneRemoved"),
                               .dead_removed = fields.require_as<std::size_t>("deadRemoved")},
                     .keys_removed = fields.get_or<std::size_t>("keysRemoved", 0)};
  });
}

TopicCall read_topic_call(std::string_view json) {
  return read_object(json, kTopicCallFields, Direction::request, [](const ObjectReader& fields) {
    return TopicCall{.topic = read_pattern(fields.require("topic"), Direction::request),
                     .reason = fields.get_or("reason", std::string())};
  });
}

std::string write_paused(std::span<const TopicPattern> patterns) {
  return write_batch("paused", patterns, [](JsonWriter& writer, const TopicPattern& pattern) {
    write_pattern(writer, pattern);
  });
}

}  // namespace oncebox::wire
