#include "oncebox/wire/audit_json.hpp"

#include <algorithm>
#include <utility>

#include "batch_json.hpp"
#include "message_fields.hpp"
#include "oncebox/wire/policy_json.hpp"
#include "query.hpp"
#include "topics_json.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 11> kAuditFields = {
    "id",      "actor",      "action", "part",    "subject", "reason",
    "begunAt", "finishedAt", "status", "changed", "detail"};
constexpr std::array<std::string_view, 2> kAuditPageFields = {"entries", "next"};
constexpr std::array<std::string_view, 6> kAuditParameters = {"actor", "action", "from",
                                                              "until", "after",  "limit"};
constexpr std::array<std::string_view, 3> kAuditCleanupFields = {"retentionSeconds", "limit",
                                                                 "reason"};

void write_text(JsonWriter& writer, std::string_view name, const std::string& text) {
  if (!text.empty()) writer.field(name, text);
}

void write_entry(JsonWriter& writer, const AuditRecord& record) {
  const AuditEntry& entry = record.entry;
  writer.begin_object()
      .field("id", static_cast<std::uint64_t>(record.id))
      .field("actor", entry.actor)
      .field("action", word_of(entry.action))
      .field("part", word_of(entry.part));
  write_text(writer, "subject", entry.subject);
  write_text(writer, "reason", entry.reason);
  writer.field("begunAt", record.begun_at).field("finishedAt", record.finished_at);
  if (record.result) {
    writer.field("status", word_of(record.result->status)).field("changed", record.result->changed);
    write_text(writer, "detail", record.result->detail);
  }
  writer.end_object();
}

AuditRecord read_entry(const JsonValue& value) {
  const ObjectReader fields(value, kAuditFields, Direction::answer);
  AuditRecord record{.id = AuditId{fields.require_as<std::uint64_t>("id")},
                     .entry = {.actor = fields.require_as<std::string>("actor"),
                               .action = read_word<AuditAction>(fields.require("action")),
                               .part = read_word<AuditedPart>(fields.require("part")),
                               .subject = fields.get_or("subject", std::string()),
                               .reason = fields.get_or("reason", std::string())},
                     .begun_at = fields.require_as<TimePoint>("begunAt"),
                     .finished_at = fields.get<TimePoint>("finishedAt")};
  if (const std::optional<JsonValue> status = fields.find("status")) {
    record.result = AuditResult{.status = read_word<AuditStatus>(*status),
                                .changed = fields.get_or<std::size_t>("changed", 0),
                                .detail = fields.get_or("detail", std::string())};
  }
  return record;
}

}  // namespace

std::string write_audit_page(const AuditPage& page) {
  JsonWriter writer;
  writer.begin_object().key("entries").begin_array();
  for (const AuditRecord& record : page.records) write_entry(writer, record);
  writer.end_array();
  if (page.next) writer.field("next", page.next->str());
  return std::move(writer.end_object()).take();
}

AuditPage read_audit_page(std::string_view json) {
  return read_object(json, kAuditPageFields, Direction::answer, [](const ObjectReader& fields) {
    AuditPage page{.records = read_array<AuditRecord>(fields.require("entries"), read_entry)};
    if (auto next = fields.get<std::string>("next")) page.next = Cursor(std::move(*next));
    return page;
  });
}

std::string write_audit_record(const AuditRecord& record) {
  JsonWriter writer;
  write_entry(writer, record);
  return std::move(writer).take();
}

AuditListRequest read_audit_query(std::span<const QueryParameter> parameters) {
  const Query query(parameters, kAuditParameters);
  AuditListRequest request{
      .filter = {.actor = query.name<std::string>("actor"),
                 .actions = query.get("action", parse_words<AuditAction>)
                                .value_or(std::vector<AuditAction>()),
                 .begun = {.from = query.time("from"), .until = query.time("until")}},
      .after = query.name<Cursor>("after")};
  request.limit = query.get("limit", parse_limit).value_or(request.limit);
  return request;
}

std::string write_audit_query(const AuditListRequest& request) {
  const AuditFilter& filter = request.filter;
  QueryText query;
  if (filter.actor) query.add("actor", *filter.actor);
  query.add_words("action", filter.actions);
  query.add("from", filter.begun.from);
  query.add("until", filter.begun.until);
  if (request.after) query.add("after", request.after->str());
  query.add("limit", std::to_string(request.limit));
  return std::move(query).take();
}

AuditCleanupRequest read_audit_cleanup(std::string_view json) {
  return read_object(json, kAuditCleanupFields, Direction::request, [](const ObjectReader& fields) {
    AuditCleanupRequest request;
    request.retention = fields.get_or("retentionSeconds", request.retention);
    request.limit = fields.get_or("limit", request.limit);
    request.reason = fields.get_or("reason", request.reason);
    return request;
  });
}

std::string write_audit_cleanup(const AuditCleanupRequest& request) {
  JsonWriter writer;
  writer.begin_object().field("retentionSeconds", request.retention).field("limit", request.limit);
  write_text(writer, "reason", clip_text(request.reason, limits::kMaxReasonBytes));
  return std::move(writer.end_object()).take();
}

std::string audit_subject(const MessageSelection& which, const std::optional<DeadGroupId>& group,
                          const std::optional<MessageFilter>& only) {
  if (const auto* filter = std::get_if<MessageFilter>(&which)) {
    if (!group) return write_filter(*filter);
    JsonWriter writer;
    writer.begin_object().field("group", group->str()).key("filter").raw(write_filter(*filter));
    return std::move(writer.end_object()).take();
  }
  const std::span<const MessageKey> keys = std::get<std::vector<MessageKey>>(which);
  constexpr std::size_t kShown = 5;
  JsonWriter writer;
  writer.begin_object().field("count", keys.size()).key("keys").begin_array();
  for (const MessageKey& key : keys.first(std::min(keys.size(), kShown))) {
    writer.begin_object();
    write_key(writer, key);
    writer.end_object();
  }
  writer.end_array();
  if (only) writer.key("only").raw(write_filter(*only));
  return std::move(writer.end_object()).take();
}

std::string audit_subject(const ActCall& call) {
  const auto* const reschedule = std::get_if<Reschedule>(&call.action);
  std::string which = audit_subject(call.which, std::nullopt, call.options.only);
  if (reschedule == nullptr) return which;
  JsonWriter writer;
  writer.begin_object().field("dueAt", reschedule->due_at).key("which").raw(which);
  return std::move(writer.end_object()).take();
}

std::string audit_subject(const TopicPattern& topic, const TopicPolicyChange& change) {
  return write_policy_call({topic, change});
}

std::string audit_removal(const TopicPattern& topic) {
  JsonWriter writer;
  writer.begin_object();
  write_pattern(writer.key("topic"), topic);
  writer.field("removed", true);
  return std::move(writer.end_object()).take();
}

}  // namespace oncebox::wire
