#include "oncebox/wire/key_json.hpp"

#include "batch_json.hpp"
#include "oncebox/wire/encoding.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 3> kTryBeginFields = {"key", "owner", "leaseSeconds"};
constexpr std::array<std::string_view, 2> kKeyAndLeaseFields = {"key", "leaseId"};
constexpr std::array<std::string_view, 5> kBeginFields = {
    "key", "owner", "leaseSeconds", "retentionSeconds", "onFailed",
};
constexpr std::array<std::string_view, 7> kBegunFields = {
    "status", "leaseId", "leaseUntil", "attempts", "resultBase64", "resultLeftOut", "error",
};
constexpr std::array<std::string_view, 4> kCompletionFields = {
    "key",
    "leaseId",
    "resultBase64",
    "retentionSeconds",
};
constexpr std::array<std::string_view, 3> kFailureFields = {"key", "leaseId", "error"};
constexpr std::array<std::string_view, 3> kExtensionOfKeyFields = {"key", "leaseId",
                                                                   "leaseSeconds"};
constexpr std::array<std::string_view, 1> kExtendedKeyField = {"leaseUntil"};
constexpr std::array<std::string_view, 1> kNamesField = {"keys"};
constexpr std::array<std::string_view, 10> kKeyRecordFields = {
    "key",   "status",     "attempts",  "firstSeen",    "lastSeen",
    "owner", "leaseUntil", "keepUntil", "resultBase64", "error",
};
constexpr std::array<std::string_view, 2> kFoundKeysFields = {"results", "truncated"};
constexpr std::array<std::string_view, 1> kLimitField = {"limit"};

constexpr std::array<std::string_view, 1> kStatusField = {"status"};
constexpr std::string_view kUnknown = "Unknown";

template <class Outcome>
void write_status(JsonWriter& writer, Outcome outcome) {
  writer.begin_object().field("status", word_of(outcome)).end_object();
}

template <class Outcome>
std::string write_status(Outcome outcome) {
  JsonWriter writer;
  write_status(writer, outcome);
  return std::move(writer).take();
}

template <class Outcome>
std::string write_statuses(std::span<const Outcome> outcomes) {
  return write_batch("results", outcomes,
                     [](JsonWriter& writer, Outcome outcome) { write_status(writer, outcome); });
}

template <class Outcome>
std::vector<Outcome> read_statuses(std::string_view json) {
  return read_result_objects<Outcome>(json, kStatusField, [](const ObjectReader& fields) {
    return read_word<Outcome>(fields.require("status"));
  });
}

void write_unknown_key(JsonWriter& writer) {
  writer.begin_object().field("status", kUnknown).field("attempts", 0).end_object();
}

Duration read_key_lease(const ObjectReader& fields) {
  const Duration lease = fields.get_or("leaseSeconds", defaults::kKeyLease);
  reading_at(Place(fields.place(), "leaseSeconds"), [lease] {
    require_in_range("lease of a key", lease, limits::kMinKeyLease, limits::kMaxKeyLease);
  });
  return lease;
}

/// What the JSON of a key takes, in which the result is the only thing that can be large.
std::size_t key_size(const std::optional<std::string>& result) noexcept {
  constexpr std::size_t kKeyBytes = 256;
  return kKeyBytes + (result ? base64_size(result->size()) : 0);
}

void write_result(JsonWriter& writer, const std::optional<std::string>& result) {
  if (result) writer.field("resultBase64", to_base64(*result));
}

std::optional<std::string> read_result(const ObjectReader& fields) {
  const std::optional<JsonValue> base64 = fields.find("resultBase64");
  if (!base64) return std::nullopt;
  std::optional<std::string> result = from_base64(base64->text());
  if (!result) base64->place().fail("this is not base64 (standard alphabet, with padding)");
  return result;
}

ReleaseRequest read_release(const ObjectReader& fields) {
  return {.key = fields.require_as<IdempotencyKey>("key"),
          .lease_id = fields.require_as<LeaseId>("leaseId")};
}

void write_key_record(JsonWriter& writer, const KeyRecord& record) {
  writer.begin_object()
      .field("key", record.key)
      .field("status", word_of(record.status))
      .field("attempts", record.attempts)
      .field("firstSeen", record.first_seen_at)
      .field("lastSeen", record.last_seen_at);
  if (!record.owner.empty()) writer.field("owner", record.owner);
  writer.field("leaseUntil", record.lease_until).field("keepUntil", record.keep_until);
  write_result(writer, record.result);
  writer.field("error", record.error).end_object();
}

KeyRecord read_key_record(const ObjectReader& fields) {
  return {.key = fields.require_as<IdempotencyKey>("key"),
          .status = read_word<KeyStatus>(fields.require("status")),
          .attempts = fields.require_as<int>("attempts"),
          .first_seen_at = fields.require_as<TimePoint>("firstSeen"),
          .last_seen_at = fields.require_as<TimePoint>("lastSeen"),
          .owner = fields.get_or<std::string>("owner", ""),
          .lease_until = fields.get<TimePoint>("leaseUntil"),
          .keep_until = fields.require_as<TimePoint>("keepUntil"),
          .result = read_result(fields),
          .error = fields.get<std::string>("error")};
}

}  // namespace

// The inbox contract ------------------------------------------------------------------------------

BeginRequest read_try_begin(std::string_view json, Duration retention) {
  return read_object(json, kTryBeginFields, Direction::request, [&](const ObjectReader& fields) {
    return BeginRequest{.key = fields.require_as<IdempotencyKey>("key"),
                        .owner = fields.get_or<std::string>("owner", ""),
                        .lease = read_key_lease(fields),
                        .retention = retention};
  });
}

std::string write_try_begin(const BeginOutcome& outcome) {
  JsonWriter writer;
  writer.begin_object()
      .field("status", word_of(outcome.status))
      .field("leaseId", outcome.lease_id)
      .field("expiresAt", outcome.lease_until)
      .field("leaseUntil", outcome.lease_until)
      .end_object();
  return std::move(writer).take();
}

CompleteRequest read_mark_processed(std::string_view json, LeaseRule rule, Duration retention) {
  return read_object(json, kKeyAndLeaseFields, Direction::request, [&](const ObjectReader& fields) {
    CompleteRequest request{.key = fields.require_as<IdempotencyKey>("key"),
                            .lease_id = fields.get<LeaseId>("leaseId"),
                            .retention = retention};
    if (rule == LeaseRule::required && !request.lease_id) {
      Place(fields.place(), "leaseId").fail("this server marks a key only under its lease");
    }
    return request;
  });
}

std::string write_mark_processed(CompleteOutcome outcome) { return write_status(outcome); }

ReleaseRequest read_release(std::string_view json) {
  return read_object(json, kKeyAndLeaseFields, Direction::request,
                     [](const ObjectReader& fields) { return read_release(fields); });
}

std::string write_release(ReleaseOutcome outcome) { return write_status(outcome); }

std::string write_key_status(const std::optional<KeyRecord>& record) {
  JsonWriter writer;
  if (record) {
    writer.begin_object()
        .field("status", word_of(record->status))
        .field("attempts", record->attempts)
        .field("firstSeen", record->first_seen_at)
        .field("lastSeen", record->last_seen_at)
        .field("leaseUntil", record->lease_until)
        .end_object();
  } else {
    write_unknown_key(writer);
  }
  return std::move(writer).take();
}

// Batches -----------------------------------------------------------------------------------------

std::vector<BeginRequest> read_begins(std::string_view json, Duration retention) {
  return read_items<BeginRequest>(json, kBeginFields, [retention](const ObjectReader& fields) {
    BeginRequest request{.key = fields.require_as<IdempotencyKey>("key")};
    request.owner = fields.get_or<std::string>("owner", "");
    request.lease = read_key_lease(fields);
    request.retention = fields.get_or("retentionSeconds", retention);
    if (const std::optional<JsonValue> policy = fields.find("onFailed")) {
      request.on_failed = read_word<FailedKeyPolicy>(*policy);
    }
    return request;
  });
}

std::string write_begins(std::span<const BeginRequest> requests) {
  return write_batch("items", requests, [](JsonWriter& writer, const BeginRequest& request) {
    writer.begin_object().field("key", request.key);
    if (!request.owner.empty()) writer.field("owner", request.owner);
    writer.field("leaseSeconds", request.lease)
        .field("retentionSeconds", request.retention)
        .field("onFailed", word_of(request.on_failed))
        .end_object();
  });
}

std::string write_begun(std::span<const BeginOutcome> outcomes) {
  std::size_t bytes = key_size({});
  for (const BeginOutcome& outcome : outcomes) bytes += key_size(outcome.result);
  return write_batch("results", outcomes, bytes,
                     [](JsonWriter& writer, const BeginOutcome& outcome) {
                       writer.begin_object()
                           .field("status", word_of(outcome.status))
                           .field("leaseId", outcome.lease_id)
                           .field("leaseUntil", outcome.lease_until)
                           .field("attempts", outcome.attempts);
                       write_result(writer, outcome.result);
                       if (outcome.result_left_out) writer.field("resultLeftOut", true);
                       writer.field("error", outcome.error).end_object();
                     });
}

std::vector<BeginOutcome> read_begun(std::string_view json) {
  return read_result_objects<BeginOutcome>(json, kBegunFields, [](const ObjectReader& fields) {
    return BeginOutcome{.status = read_word<BeginStatus>(fields.require("status")),
                        .lease_id = fields.get<LeaseId>("leaseId"),
                        .lease_until = fields.get<TimePoint>("leaseUntil"),
                        .attempts = fields.require_as<int>("attempts"),
                        .result = read_result(fields),
                        .result_left_out = fields.get_or("resultLeftOut", false),
                        .error = fields.get<std::string>("error")};
  });
}

std::vector<CompleteRequest> read_completions(std::string_view json, Duration retention) {
  return read_items<CompleteRequest>(
      json, kCompletionFields, [retention](const ObjectReader& fields) {
        CompleteRequest request{.key = fields.require_as<IdempotencyKey>("key")};
        request.lease_id = fields.get<LeaseId>("leaseId");
        request.result = read_result(fields);
        request.retention = fields.get_or("retentionSeconds", retention);
        return request;
      });
}

std::string write_completions(std::span<const CompleteRequest> requests) {
  return write_batch("items", requests, [](JsonWriter& writer, const CompleteRequest& request) {
    writer.begin_object().field("key", request.key).field("leaseId", request.lease_id);
    write_result(writer, request.result);
    writer.field("retentionSeconds", request.retention).end_object();
  });
}

std::string write_completed(std::span<const CompleteOutcome> outcomes) {
  return write_statuses(outcomes);
}

std::vector<CompleteOutcome> read_completed(std::string_view json) {
  return read_statuses<CompleteOutcome>(json);
}

std::vector<FailRequest> read_key_failures(std::string_view json) {
  return read_items<FailRequest>(json, kFailureFields, [](const ObjectReader& fields) {
    return FailRequest{.key = fields.require_as<IdempotencyKey>("key"),
                       .lease_id = fields.require_as<LeaseId>("leaseId"),
                       .error = fields.require_as<std::string>("error")};
  });
}

std::string write_key_failures(std::span<const FailRequest> requests) {
  return write_batch("items", requests, [](JsonWriter& writer, const FailRequest& request) {
    writer.begin_object()
        .field("key", request.key)
        .field("leaseId", request.lease_id)
        // Stores cut and mend the text in the same way.
        .field("error", clip_text(request.error, limits::kMaxErrorBytes))
        .end_object();
  });
}

std::string write_keys_failed(std::span<const FailOutcome> outcomes) {
  return write_statuses(outcomes);
}

std::vector<FailOutcome> read_keys_failed(std::string_view json) {
  return read_statuses<FailOutcome>(json);
}

std::vector<ReleaseRequest> read_key_releases(std::string_view json) {
  return read_items<ReleaseRequest>(
      json, kKeyAndLeaseFields, [](const ObjectReader& fields) { return read_release(fields); });
}

std::string write_key_releases(std::span<const ReleaseRequest> requests) {
  return write_batch("items", requests, [](JsonWriter& writer, const ReleaseRequest& request) {
    writer.begin_object().field("key", request.key).field("leaseId", request.lease_id).end_object();
  });
}

std::string write_keys_released(std::span<const ReleaseOutcome> outcomes) {
  return write_statuses(outcomes);
}

std::vector<ReleaseOutcome> read_keys_released(std::string_view json) {
  return read_statuses<ReleaseOutcome>(json);
}

std::vector<KeyExtension> read_key_extensions(std::string_view json) {
  return read_items<KeyExtension>(json, kExtensionOfKeyFields, [](const ObjectReader& fields) {
    return KeyExtension{.key = fields.require_as<IdempotencyKey>("key"),
                        .lease_id = fields.require_as<LeaseId>("leaseId"),
                        .lease = read_key_lease(fields)};
  });
}

std::string write_key_extensions(std::span<const KeyExtension> extensions) {
  return write_batch("items", extensions, [](JsonWriter& writer, const KeyExtension& extension) {
    writer.begin_object()
        .field("key", extension.key)
        .field("leaseId", extension.lease_id)
        .field("leaseSeconds", extension.lease)
        .end_object();
  });
}

std::string write_keys_extended(std::span<const KeyExtendOutcome> outcomes) {
  return write_batch("results", outcomes, [](JsonWriter& writer, const KeyExtendOutcome& outcome) {
    writer.begin_object();
    if (outcome.lease_until) {
      writer.field("status", "Extended").field("leaseUntil", *outcome.lease_until);
    } else {
      writer.field("status", "LeaseLost");
    }
    writer.end_object();
  });
}

std::vector<KeyExtendOutcome> read_keys_extended(std::string_view json) {
  return read_result_objects<KeyExtendOutcome>(
      json, kExtendedKeyField, [](const ObjectReader& fields) {
        return KeyExtendOutcome{.lease_until = fields.get<TimePoint>("leaseUntil")};
      });
}

std::vector<IdempotencyKey> read_key_names(std::string_view json) {
  return read_object(json, kNamesField, Direction::request, [](const ObjectReader& fields) {
    return read_array<IdempotencyKey>(
        fields.require("keys"), [](const JsonValue& value) { return value.as<IdempotencyKey>(); });
  });
}

std::string write_key_names(std::span<const IdempotencyKey> keys) {
  return write_batch("keys", keys,
                     [](JsonWriter& writer, const IdempotencyKey& key) { writer.value(key); });
}

std::string write_key_records(const FoundKeys& found) {
  std::size_t bytes = key_size({});
  for (const std::optional<KeyRecord>& record : found.records) {
    bytes += key_size(record ? record->result : std::nullopt);
  }
  JsonWriter writer(bytes);
  writer.begin_object().key("results").begin_array();
  for (const std::optional<KeyRecord>& record : found.records) {
    if (record) {
      write_key_record(writer, *record);
    } else {
      write_unknown_key(writer);
    }
  }
  writer.end_array();
  if (found.truncated) writer.field("truncated", true);
  return std::move(writer.end_object()).take();
}

FoundKeys read_key_records(std::string_view json) {
  using Found = std::optional<KeyRecord>;
  const auto read_found = [](const JsonValue& value) -> Found {
    const ObjectReader fields(value, kKeyRecordFields, Direction::answer);
    if (fields.require_as<std::string>("status") == kUnknown) return std::nullopt;
    return read_key_record(fields);
  };
  return read_object(json, kFoundKeysFields, Direction::answer, [&](const ObjectReader& fields) {
    return FoundKeys{.records = read_array<Found>(fields.require("results"), read_found),
                     .truncated = fields.get_or("truncated", false)};
  });
}

std::size_t read_limit(std::string_view json) {
  return read_object(json, kLimitField, Direction::request, [](const ObjectReader& fields) {
    return fields.get_or<std::size_t>("limit", 1'000);
  });
}

std::string write_limit(std::size_t limit) {
  JsonWriter writer;
  writer.begin_object().field("limit", limit).end_object();
  return std::move(writer).take();
}

}  // namespace oncebox::wire
