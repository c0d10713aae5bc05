#include "oncebox/wire/endpoint_json.hpp"

#include <utility>

#include "batch_json.hpp"
#include "oncebox/error.hpp"
#include "query.hpp"
#include "topics_json.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 8> kEndpointFields = {"name",         "url",
                                                             "topics",       "secrets",
                                                             "headers",      "timeoutSeconds",
                                                             "allowPrivate", "disableAfterSeconds"};
constexpr std::array<std::string_view, 4> kEndpointStatusFields = {"failingSince", "lastFailure",
                                                                   "disabledAt", "disabledReason"};
constexpr std::array<std::string_view, 1> kEndpointReason = {"reason"};
constexpr auto kEndpointSaveFields = joined(kEndpointFields, kEndpointReason);
constexpr auto kEndpointRecordFields = joined(kEndpointFields, kEndpointStatusFields);
constexpr std::array<std::string_view, 1> kEndpointSavedFields = {"status"};
constexpr std::array<std::string_view, 2> kEndpointListFields = {"version", "endpoints"};
constexpr std::array<std::string_view, 2> kEndpointParameters = {"knownVersion", "secrets"};
constexpr std::array<std::string_view, 2> kEndpointRemovalFields = {"name", "reason"};
constexpr std::array<std::string_view, 4> kEndpointNoteFields = {"name", "event", "at", "reason"};
constexpr std::array<std::string_view, 8> kEndpointResendFields = {
    "since", "until", "failed", "source", "messageId", "perSecond", "dryRun", "reason"};
constexpr std::array<std::string_view, 4> kEndpointResentFields = {"count", "underWay", "notWanted",
                                                                   "dryRun"};
constexpr std::array<std::string_view, 1> kEndpointTestFields = {"waitSeconds"};
constexpr std::array<std::string_view, 2> kEndpointNotedFlags = {"known", "changed"};
constexpr auto kEndpointNotedFields = joined(kEndpointNotedFlags, kEndpointStatusFields);

Headers read_field_lines(const JsonValue& value) {
  Headers headers;
  if (!value.is_object()) value.place().fail("an object was expected");
  for_each_member(value.json(), [&](std::string_view quoted_name, std::string_view text) {
    const std::string name = unescape(quoted_name);
    const JsonValue line(text, Place(value.place(), name));
    reading_at(line.place(), [&] {
      headers.set(name, line.text());
      return true;
    });
  });
  return headers;
}

Endpoint read_endpoint_fields(const ObjectReader& fields, Direction direction) {
  Endpoint endpoint{.name = fields.require_as<EndpointName>("name"),
                    .url = fields.require_as<std::string>("url")};
  if (const std::optional<JsonValue> topics = fields.find("topics")) {
    endpoint.topics = read_array<TopicPattern>(
        *topics, [&](const JsonValue& value) { return read_pattern(value, direction); });
  }
  if (const std::optional<JsonValue> secrets = fields.find("secrets")) {
    endpoint.secrets = read_array<std::string>(
        *secrets, [](const JsonValue& value) { return value.as<std::string>(); });
  }
  if (const std::optional<JsonValue> headers = fields.find("headers")) {
    endpoint.headers = read_field_lines(*headers);
  }
  endpoint.timeout = fields.get<Duration>("timeoutSeconds");
  endpoint.allow_private = fields.get_or("allowPrivate", endpoint.allow_private);
  endpoint.disable_after = fields.get_or("disableAfterSeconds", endpoint.disable_after);
  return endpoint;
}

void write_endpoint_fields(JsonWriter& writer, const Endpoint& endpoint) {
  writer.field("name", endpoint.name).field("url", endpoint.url);
  writer.key("topics").begin_array();
  for (const TopicPattern& pattern : endpoint.topics) write_pattern(writer, pattern);
  writer.end_array();
  if (endpoint.secrets) {
    writer.key("secrets").begin_array();
    for (const std::string& secret : *endpoint.secrets) writer.value(std::string_view(secret));
    writer.end_array();
  }
  if (!endpoint.headers.empty()) {
    writer.key("headers").begin_object();
    for (const auto& [name, value] : endpoint.headers) {
      writer.escaped_key(name).value(std::string_view(value));
    }
    writer.end_object();
  }
  writer.field("timeoutSeconds", endpoint.timeout)
      .field("allowPrivate", endpoint.allow_private)
      .field("disableAfterSeconds", endpoint.disable_after);
}

EndpointStatus read_endpoint_status(const ObjectReader& fields) {
  EndpointStatus status{.failing_since = fields.get<TimePoint>("failingSince"),
                        .last_failure = fields.get<TimePoint>("lastFailure")};
  if (const std::optional<TimePoint> at = fields.get<TimePoint>("disabledAt")) {
    status.disabled = {*at, fields.get_or("disabledReason", std::string())};
  }
  return status;
}

void write_endpoint_status(JsonWriter& writer, const EndpointStatus& status) {
  writer.field("failingSince", status.failing_since).field("lastFailure", status.last_failure);
  if (status.disabled) {
    writer.field("disabledAt", status.disabled->at)
        .field("disabledReason", status.disabled->reason);
  }
}

void write_endpoint_record(JsonWriter& writer, const EndpointRecord& record) {
  writer.begin_object();
  write_endpoint_fields(writer, record.endpoint);
  write_endpoint_status(writer, record.status);
  writer.end_object();
}

std::optional<MessageKey> read_resent_key(const ObjectReader& fields) {
  if (!fields.find("source") && !fields.find("messageId")) return std::nullopt;
  return MessageKey{fields.require_as<Source>("source"), fields.require_as<MessageId>("messageId")};
}

/// So that nobody sends everything again by a slip.
void require_one_way(const EndpointResend& call) {
  const int ways = static_cast<int>(call.sent.from.has_value()) + static_cast<int>(call.failed) +
                   static_cast<int>(call.key.has_value());
  if (ways == 1 && (call.sent.from || !call.sent.until)) return;
  throw Error(ErrorCode::invalid_argument,
              "say one of since (with until, if you like), failed, and source with messageId");
}

std::int64_t parse_version(const std::string& value, const Place& place) {
  return static_cast<std::int64_t>(parse_limit(value, place));
}

EndpointSecrets parse_secrets(const std::string& value, const Place& place) {
  return parse_word<EndpointSecrets>(value, place);
}

}  // namespace

EndpointSave read_endpoint_save(std::string_view json) {
  return read_object(json, kEndpointSaveFields, Direction::request, [](const ObjectReader& fields) {
    return EndpointSave{read_endpoint_fields(fields, Direction::request),
                        fields.get_or("reason", std::string())};
  });
}

std::string write_endpoint_save(const EndpointSave& call) {
  JsonWriter writer;
  writer.begin_object();
  write_endpoint_fields(writer, call.endpoint);
  if (!call.reason.empty()) writer.field("reason", call.reason);
  return std::move(writer.end_object()).take();
}

std::string write_endpoint_saved(EndpointSaved saved) {
  JsonWriter writer;
  return std::move(writer.begin_object().field("status", word_of(saved)).end_object()).take();
}

EndpointSaved read_endpoint_saved(std::string_view json) {
  return read_object(json, kEndpointSavedFields, Direction::answer, [](const ObjectReader& fields) {
    return read_word<EndpointSaved>(fields.require("status"));
  });
}

EndpointListQuery read_endpoint_query(std::span<const QueryParameter> parameters) {
  const Query query(parameters, kEndpointParameters);
  return {.known_version = query.get("knownVersion", parse_version),
          .secrets = query.get("secrets", parse_secrets).value_or(EndpointSecrets::leave_out)};
}

std::string write_endpoint_query(const EndpointListQuery& query) {
  QueryText text;
  if (query.known_version) text.add("knownVersion", std::to_string(*query.known_version));
  text.add("secrets", word_of(query.secrets));
  return std::move(text).take();
}

std::string write_endpoints(const std::optional<EndpointList>& list, std::int64_t known_version) {
  JsonWriter writer;
  writer.begin_object().field("version", list ? list->version : known_version);
  if (list) {
    writer.key("endpoints").begin_array();
    for (const EndpointRecord& record : list->endpoints) write_endpoint_record(writer, record);
    writer.end_array();
  }
  return std::move(writer.end_object()).take();
}

std::optional<EndpointList> read_endpoints(std::string_view json) {
  return read_object(
      json, kEndpointListFields, Direction::answer,
      [](const ObjectReader& fields) -> std::optional<EndpointList> {
        const std::optional<JsonValue> endpoints = fields.find("endpoints");
        if (!endpoints) return std::nullopt;
        EndpointList list{.version = fields.require_as<std::int64_t>("version")};
        list.endpoints = read_array<EndpointRecord>(*endpoints, [](const JsonValue& value) {
          const ObjectReader record(value, kEndpointRecordFields, Direction::answer);
          return EndpointRecord{read_endpoint_fields(record, Direction::answer),
                                read_endpoint_status(record)};
        });
        return list;
      });
}

std::string write_endpoint(const EndpointRecord& record) {
  JsonWriter writer;
  write_endpoint_record(writer, record);
  return std::move(writer).take();
}

EndpointRemoval read_endpoint_removal(std::string_view json) {
  return read_object(json, kEndpointRemovalFields, Direction::request,
                     [](const ObjectReader& fields) {
                       return EndpointRemoval{fields.require_as<EndpointName>("name"),
                                              fields.get_or("reason", std::string())};
                     });
}

std::string write_endpoint_removal(const EndpointRemoval& call) {
  JsonWriter writer;
  writer.begin_object().field("name", call.name);
  if (!call.reason.empty()) writer.field("reason", call.reason);
  return std::move(writer.end_object()).take();
}

EndpointNote read_endpoint_note(std::string_view json, TimePoint now) {
  return read_object(
      json, kEndpointNoteFields, Direction::request, [&](const ObjectReader& fields) {
        return EndpointNote{fields.require_as<EndpointName>("name"),
                            {.kind = read_word<EndpointEvent::Kind>(fields.require("event")),
                             .at = fields.get_or("at", now),
                             .reason = fields.get_or("reason", std::string())}};
      });
}

std::string write_endpoint_note(const EndpointNote& call) {
  JsonWriter writer;
  writer.begin_object()
      .field("name", call.name)
      .field("event", word_of(call.event.kind))
      .field("at", call.event.at);
  if (!call.event.reason.empty()) writer.field("reason", call.event.reason);
  return std::move(writer.end_object()).take();
}

std::string write_endpoint_noted(const std::optional<EndpointNoted>& noted) {
  JsonWriter writer;
  writer.begin_object().field("known", noted.has_value());
  writer.field("changed", noted && noted->changed);
  if (noted) write_endpoint_status(writer, noted->status);
  return std::move(writer.end_object()).take();
}

std::optional<EndpointNoted> read_endpoint_noted(std::string_view json) {
  return read_object(json, kEndpointNotedFields, Direction::answer,
                     [](const ObjectReader& fields) -> std::optional<EndpointNoted> {
                       if (!fields.require_as<bool>("known")) return std::nullopt;
                       return EndpointNoted{fields.require_as<bool>("changed"),
                                            read_endpoint_status(fields)};
                     });
}

EndpointResend read_endpoint_resend(std::string_view json) {
  return read_object(json, kEndpointResendFields, Direction::request,
                     [](const ObjectReader& fields) {
                       EndpointResend call{
                           .sent = {fields.get<TimePoint>("since"), fields.get<TimePoint>("until")},
                           .failed = fields.get_or("failed", false),
                           .key = read_resent_key(fields),
                           .per_second = fields.get<double>("perSecond"),
                           .dry_run = fields.get_or("dryRun", false),
                           .reason = fields.get_or("reason", std::string())};
                       require_one_way(call);
                       return call;
                     });
}

std::string write_endpoint_resend(const EndpointResend& call) {
  JsonWriter writer;
  writer.begin_object().field("since", call.sent.from).field("until", call.sent.until);
  if (call.failed) writer.field("failed", true);
  if (call.key) writer.field("source", call.key->source).field("messageId", call.key->message_id);
  if (call.per_second) writer.field("perSecond", *call.per_second);
  if (call.dry_run) writer.field("dryRun", true);
  if (!call.reason.empty()) writer.field("reason", call.reason);
  return std::move(writer.end_object()).take();
}

std::string write_endpoint_resent(const EndpointResent& resent) {
  JsonWriter writer;
  writer.begin_object()
      .field("count", resent.count)
      .field("underWay", resent.under_way)
      .field("notWanted", resent.not_wanted)
      .field("dryRun", resent.dry_run);
  return std::move(writer.end_object()).take();
}

EndpointResent read_endpoint_resent(std::string_view json) {
  return read_object(
      json, kEndpointResentFields, Direction::answer, [](const ObjectReader& fields) {
        return EndpointResent{.count = fields.require_as<std::size_t>("count"),
                              .under_way = fields.require_as<std::size_t>("underWay"),
                              .not_wanted = fields.require_as<std::size_t>("notWanted"),
                              .dry_run = fields.require_as<bool>("dryRun")};
      });
}

Duration read_endpoint_test(std::string_view json, Duration usual) {
  return read_object(
      json, kEndpointTestFields, Direction::request,
      [&](const ObjectReader& fields) { return fields.get_or("waitSeconds", usual); });
}

std::string write_endpoint_tested(const MessageKey& delivery) {
  JsonWriter writer;
  writer.begin_object().field("source", delivery.source).field("messageId", delivery.message_id);
  return std::move(writer.end_object()).take();
}

std::string write_disabled_endpoint(const DisabledEndpoint& notice, TimePoint now) {
  JsonWriter writer;
  writer.begin_object()
      .field("type", "oncebox.endpoint.disabled")
      .field("timestamp", now)
      .key("data")
      .begin_object()
      .field("store", notice.store)
      .field("endpoint", notice.endpoint);
  write_endpoint_status(writer, notice.status);
  return std::move(writer.end_object().end_object()).take();
}

std::string audit_subject(Endpoint endpoint) {
  endpoint.secrets.reset();
  // Their values may be secrets, too.
  endpoint.headers = {};
  return write_endpoint_save({std::move(endpoint)});
}

std::string audit_subject(const EndpointName& name) { return write_endpoint_removal({name}); }

}  // namespace oncebox::wire
