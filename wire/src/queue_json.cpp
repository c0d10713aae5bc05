#include "oncebox/wire/queue_json.hpp"

#include "batch_json.hpp"
#include "message_fields.hpp"
#include "topics_json.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

constexpr auto kEnqueuedFields =
    joined(kKeyFields,
           std::array<std::string_view, 4>{"status", "hashMismatch", "quarantinedAs", "newlyDead"});
constexpr auto kObservationFields = joined(kKeyFields, std::array<std::string_view, 1>{"hash"});
constexpr std::array<std::string_view, 2> kObservedFields = {"state", "hashMismatch"};
constexpr auto kMarkFields = joined(kKeyFields, std::array<std::string_view, 2>{"as", "error"});
constexpr std::array<std::string_view, 3> kFindFields = {"keys", "payloads", "maxBytes"};
constexpr std::array<std::string_view, 2> kFoundFields = {"results", "truncated"};
constexpr std::array<std::string_view, 7> kClaimFields = {
    "owner", "worker", "leaseSeconds", "limit", "maxBytes", "topics", "waitSeconds",
};
constexpr std::array<std::string_view, 3> kClaimedFields = {"owner", "messages", "reaped"};
constexpr auto kClaimedMessageFields =
    joined(kMessageFields, kHistoryFields,
           std::array<std::string_view, 6>{"delivery", "lockedUntil", "eligibleAt", "revivedAt",
                                           "maxAttempts", "giveUpAfterSeconds"});
constexpr std::array<std::string_view, 2> kOwnedItemsFields = {"owner", "items"};
constexpr std::array<std::string_view, 2> kDeliveryFields = {"owner", "delivery"};
constexpr auto kSettlementFields = joined(
    kKeyFields, kDeliveryFields,
    std::array<std::string_view, 8>{"verdict", "error", "errorKind", "delaySeconds", "delayIsLeast",
                                    "maxAttempts", "giveUpAfterSeconds", "untried"});
constexpr std::array<std::string_view, 4> kSettledFields = {"status", "againAt", "death", "policy"};
constexpr auto kExtensionFields =
    joined(kKeyFields, kDeliveryFields, std::array<std::string_view, 1>{"leaseSeconds"});
constexpr std::array<std::string_view, 1> kExtendedField = {"lockedUntil"};
constexpr std::array<std::string_view, 1> kReapFields = {"limit"};
constexpr std::array<std::string_view, 3> kReapedFields = {"released", "buried", "deaths"};
constexpr std::array<std::string_view, 4> kDeathFields = {"source", "messageId", "topic", "error"};
constexpr std::array<std::string_view, 1> kTopicsField = {"topics"};
constexpr std::array<std::string_view, 1> kDueField = {"dueAt"};

void write_enqueued(JsonWriter& writer, const MessageKey& key, const EnqueueOutcome& outcome) {
  writer.begin_object();
  write_key(writer, key);
  writer.field("status", word_of(outcome.status));
  if (outcome.hash_mismatch) writer.field("hashMismatch", true);
  writer.field("quarantinedAs", outcome.quarantined_as);
  if (outcome.newly_dead) writer.field("newlyDead", true);
  writer.end_object();
}

EnqueueOutcome read_outcome(const JsonValue& value) {
  const ObjectReader fields(value, kEnqueuedFields, Direction::answer);
  return {.status = read_word<EnqueueStatus>(fields.require("status")),
          .hash_mismatch = fields.get_or<bool>("hashMismatch", false),
          .quarantined_as = fields.get<MessageId>("quarantinedAs"),
          .newly_dead = fields.get_or<bool>("newlyDead", false)};
}

void write_delivery(JsonWriter& writer, const Delivery& delivery) {
  write_key(writer, delivery.key);
  writer.field("owner", delivery.owner);
  if (delivery.number) writer.field("delivery", static_cast<std::uint64_t>(*delivery.number));
}

// `shared_owner` is the one beside the items.
Delivery read_delivery(const ObjectReader& fields, const std::optional<OwnerToken>& shared_owner) {
  std::optional<OwnerToken> owner = fields.get<OwnerToken>("owner");
  if (!owner) owner = shared_owner;
  if (!owner) owner = fields.require_as<OwnerToken>("owner");
  std::optional<DeliveryNumber> number;
  if (const auto written = fields.get<std::uint64_t>("delivery")) number = DeliveryNumber{*written};
  return {.key = read_key(fields), .owner = *owner, .number = number};
}

template <class Item, class Read>
std::vector<Item> read_owned_items(std::string_view json, std::span<const std::string_view> known,
                                   Read read) {
  return read_object(json, kOwnedItemsFields, Direction::request, [&](const ObjectReader& fields) {
    const std::optional<OwnerToken> owner = fields.get<OwnerToken>("owner");
    return read_array<Item>(fields.require("items"), [&](const JsonValue& value) {
      const ObjectReader item(value, known, Direction::request);
      return read(item, read_delivery(item, owner));
    });
  });
}

// Stores cut and mend texts in the same way, so nothing is lost that they would have kept.
std::string kept_error(const std::string& error) {
  return clip_text(error, limits::kMaxErrorBytes);
}

void write_error(JsonWriter& writer, const std::string& error) {
  if (!error.empty()) writer.field("error", kept_error(error));
}

void write_error_kind(JsonWriter& writer, const std::string& kind) {
  if (!kind.empty()) writer.field("errorKind", clip_text(kind, limits::kMaxErrorKindBytes));
}

void write_limit(JsonWriter& writer, const std::optional<AttemptLimit>& limit) {
  if (!limit) return;
  writer.field("maxAttempts", limit->max_attempts)
      .field("giveUpAfterSeconds", limit->give_up_after);
}

void write_verdict(JsonWriter& writer, const Verdict& verdict) {
  writer.field("verdict", word_of(static_cast<VerdictKind>(verdict.index())));
  if (const Abandon* const abandon = std::get_if<Abandon>(&verdict)) {
    write_error(writer, abandon->error);
    write_error_kind(writer, abandon->error_kind);
    writer.field("delaySeconds", abandon->delay);
    if (abandon->delay_is_least) writer.field("delayIsLeast", true);
    write_limit(writer, abandon->limit);
  } else if (const Fail* const fail = std::get_if<Fail>(&verdict)) {
    writer.field("error", kept_error(fail->error));
    write_error_kind(writer, fail->error_kind);
    if (fail->untried) writer.field("untried", true);
  } else if (const Release* const release = std::get_if<Release>(&verdict)) {
    writer.field("delaySeconds", release->delay);
  }
}

std::optional<AttemptLimit> read_limit(const ObjectReader& fields) {
  const std::optional<int> max_attempts = fields.get<int>("maxAttempts");
  const std::optional<Duration> give_up_after = fields.get<Duration>("giveUpAfterSeconds");
  if (max_attempts) return AttemptLimit{*max_attempts, give_up_after};
  if (give_up_after) {
    Place(fields.place(), "giveUpAfterSeconds").fail("it needs maxAttempts beside it");
  }
  return std::nullopt;
}

std::string read_error_kind(const ObjectReader& fields, VerdictKind verdict) {
  const std::optional<std::string> kind = fields.get<std::string>("errorKind");
  if (!kind) return {};
  const Place place(fields.place(), "errorKind");
  if (verdict != VerdictKind::abandon && verdict != VerdictKind::fail) {
    place.fail("only Abandon and Fail have an error");
  }
  reading_at(place, [&] {
    require_in_range("length in bytes", kind->size(), 1, limits::kMaxErrorKindBytes);
  });
  return *kind;
}

Verdict read_verdict(const ObjectReader& fields) {
  const VerdictKind kind = read_word<VerdictKind>(fields.require("verdict"));
  std::optional<std::string> error = fields.get<std::string>("error");
  const std::optional<Duration> delay = fields.get<Duration>("delaySeconds");
  if (error && kind != VerdictKind::abandon && kind != VerdictKind::fail) {
    Place(fields.place(), "error").fail("only Abandon and Fail have an error");
  }
  if (delay && kind != VerdictKind::abandon && kind != VerdictKind::release) {
    Place(fields.place(), "delaySeconds").fail("only Abandon and Release have a delay");
  }
  std::string error_kind = read_error_kind(fields, kind);
  const std::optional<AttemptLimit> limit = read_limit(fields);
  if (limit && kind != VerdictKind::abandon) {
    Place(fields.place(), "maxAttempts").fail("only Abandon has a limit of attempts");
  }
  const bool delay_is_least = fields.get_or("delayIsLeast", false);
  if (delay_is_least && !(delay && kind == VerdictKind::abandon)) {
    Place(fields.place(), "delayIsLeast").fail("only Abandon with a delay has it");
  }
  const bool untried = fields.get_or("untried", false);
  if (untried && kind != VerdictKind::fail) {
    Place(fields.place(), "untried").fail("only Fail has it");
  }
  switch (kind) {
    case VerdictKind::ack:
      return Ack{};
    case VerdictKind::abandon:
      return Abandon{.error = error.value_or(""),
                     .delay = delay,
                     .limit = limit,
                     .delay_is_least = delay_is_least,
                     .error_kind = std::move(error_kind)};
    case VerdictKind::fail:
      return Fail{.error = fields.require_as<std::string>("error"),
                  .error_kind = std::move(error_kind),
                  .untried = untried};
    case VerdictKind::release:
      return Release{.delay = delay};
  }
  return Release{};
}

ClaimedMessage read_claimed_message(const JsonValue& value, const OwnerToken& owner) {
  const ObjectReader fields(value, kClaimedMessageFields, Direction::answer);
  return {.message = read_message_fields(fields, Direction::answer, nullptr, 0),
          .history = read_history(fields),
          .owner = owner,
          .delivery = DeliveryNumber{fields.require_as<std::uint64_t>("delivery")},
          .locked_until = fields.require_as<TimePoint>("lockedUntil"),
          .eligible_at = fields.require_as<TimePoint>("eligibleAt"),
          .revived_at = fields.get<TimePoint>("revivedAt"),
          .attempt_limit = read_limit(fields)};
}

void write_reaped(JsonWriter& writer, const ReapResult& result) {
  writer.begin_object()
      .field("released", result.released)
      .field("buried", result.buried)
      .key("deaths")
      .begin_array();
  for (const Death& death : result.deaths) {
    writer.begin_object();
    write_key(writer, death.key);
    writer.field("topic", death.topic).field("error", death.cause).end_object();
  }
  writer.end_array().end_object();
}

ReapResult read_reaped(const ObjectReader& fields) {
  return {.released = fields.require_as<std::size_t>("released"),
          .buried = fields.require_as<std::size_t>("buried"),
          .deaths = read_array<Death>(fields.require("deaths"), [](const JsonValue& value) {
            const ObjectReader death(value, kDeathFields, Direction::answer);
            return Death{read_key(death), death.require_as<Topic>("topic"),
                         death.require_as<std::string>("error")};
          })};
}

TopicSelection read_topics_of(const ObjectReader& fields) {
  const std::optional<JsonValue> topics = fields.find("topics");
  return topics ? read_selection(*topics, Direction::request) : TopicSelection{};
}

}  // namespace

// Enqueue -----------------------------------------------------------------------------------------

std::string count_field(EnqueueStatus status) {
  std::string name(word_of(status));
  name.front() = static_cast<char>(name.front() - 'A' + 'a');
  return name;
}

std::string write_enqueued(const MessageKey& key, const EnqueueOutcome& outcome) {
  JsonWriter writer;
  write_enqueued(writer, key, outcome);
  return std::move(writer).take();
}

std::string write_enqueued(std::span<const Message> messages,
                           std::span<const EnqueueOutcome> outcomes) {
  std::size_t place = 0;
  return write_batch("results", outcomes, [&](JsonWriter& writer, const EnqueueOutcome& outcome) {
    write_enqueued(writer, messages[place++].key, outcome);
  });
}

std::vector<EnqueueOutcome> read_enqueued(std::string_view json) {
  return read_results<EnqueueOutcome>(json, read_outcome);
}

// Observe, mark, find -----------------------------------------------------------------------------

std::vector<Observation> read_observations(std::string_view json) {
  return read_items<Observation>(json, kObservationFields, [](const ObjectReader& fields) {
    return Observation{.key = read_key(fields), .hash = fields.get<ContentHash>("hash")};
  });
}

std::string write_observations(std::span<const Observation> observations) {
  return write_batch("items", observations, [](JsonWriter& writer, const Observation& item) {
    writer.begin_object();
    write_key(writer, item.key);
    write_hash(writer, item.hash);
    writer.end_object();
  });
}

std::string write_observed(std::span<const ObserveOutcome> outcomes) {
  return write_batch("results", outcomes, [](JsonWriter& writer, const ObserveOutcome& outcome) {
    writer.begin_object().field("state", word_of(outcome.state));
    if (outcome.hash_mismatch) writer.field("hashMismatch", true);
    writer.end_object();
  });
}

std::vector<ObserveOutcome> read_observed(std::string_view json) {
  return read_result_objects<ObserveOutcome>(json, kObservedFields, [](const ObjectReader& fields) {
    return ObserveOutcome{.state = read_word<ObservedState>(fields.require("state")),
                          .hash_mismatch = fields.get_or<bool>("hashMismatch", false)};
  });
}

std::vector<Mark> read_marks(std::string_view json) {
  return read_items<Mark>(json, kMarkFields, [](const ObjectReader& fields) {
    return Mark{.key = read_key(fields),
                .as = read_word<MarkAs>(fields.require("as")),
                .error = fields.get_or<std::string>("error", "")};
  });
}

std::string write_marks(std::span<const Mark> marks) {
  return write_batch("items", marks, [](JsonWriter& writer, const Mark& mark) {
    writer.begin_object();
    write_key(writer, mark.key);
    writer.field("as", word_of(mark.as));
    write_error(writer, mark.error);
    writer.end_object();
  });
}

std::string write_marked(std::span<const MarkOutcome> outcomes) { return write_words(outcomes); }

std::vector<MarkOutcome> read_marked(std::string_view json) {
  return read_words<MarkOutcome>(json);
}

FindCall read_find(std::string_view json) {
  return read_object(json, kFindFields, Direction::request, [](const ObjectReader& fields) {
    FindCall call;
    call.keys = read_array<MessageKey>(fields.require("keys"), [](const JsonValue& value) {
      return read_key(ObjectReader(value, kKeyFields, Direction::request));
    });
    if (!fields.get_or("payloads", true)) call.options.payloads = ListPayloads::omit;
    call.options.max_bytes = fields.get_or("maxBytes", call.options.max_bytes);
    return call;
  });
}

std::string write_find(const FindCall& call) {
  constexpr std::size_t kKeyBytes = 64;
  JsonWriter writer(kKeyBytes * (call.keys.size() + 1));
  writer.begin_object().key("keys").begin_array();
  for (const MessageKey& key : call.keys) {
    writer.begin_object();
    write_key(writer, key);
    writer.end_object();
  }
  writer.end_array();
  if (call.options.payloads == ListPayloads::omit) writer.field("payloads", false);
  if (call.options.max_bytes != FindOptions{}.max_bytes) {
    writer.field("maxBytes", call.options.max_bytes);
  }
  return std::move(writer.end_object()).take();
}

std::size_t json_size(const FoundMessages& found, ListPayloads payloads) noexcept {
  constexpr std::size_t kNothingBytes = 64;
  std::size_t bytes = kNothingBytes * (found.records.size() + 1);
  for (const std::optional<MessageRecord>& record : found.records) {
    if (record) bytes += json_size(*record, payloads);
  }
  return bytes;
}

std::string write_found(const FoundMessages& found, ListPayloads payloads) {
  JsonWriter writer(json_size(found, payloads));
  writer.begin_object().key("results").begin_array();
  for (const std::optional<MessageRecord>& record : found.records) {
    if (record) {
      write_record(writer, *record, payloads);
    } else {
      writer.null();
    }
  }
  writer.end_array();
  if (found.truncated) writer.field("truncated", true);
  return std::move(writer.end_object()).take();
}

FoundMessages read_found(std::string_view json) {
  using Found = std::optional<MessageRecord>;
  return read_object(json, kFoundFields, Direction::answer, [](const ObjectReader& fields) {
    return FoundMessages{.records = read_array<Found>(fields.require("results"),
                                                      [](const JsonValue& value) -> Found {
                                                        if (value.is_null()) return std::nullopt;
                                                        return read_record(value);
                                                      }),
                         .truncated = fields.get_or("truncated", false)};
  });
}

// Claim, settle, extend ---------------------------------------------------------------------------

ClaimCall read_claim(std::string_view json) {
  return read_object(json, kClaimFields, Direction::request, [](const ObjectReader& fields) {
    const std::optional<OwnerToken> owner = fields.get<OwnerToken>("owner");
    ClaimRequest request{.owner = owner ? *owner : OwnerToken::generate()};
    request.lease = fields.get_or("leaseSeconds", request.lease);
    request.limit = fields.get_or("limit", request.limit);
    request.max_bytes = fields.get_or("maxBytes", request.max_bytes);
    request.topics = read_topics_of(fields);
    request.worker = fields.get<WorkerName>("worker");
    const Duration wait = fields.get_or("waitSeconds", Duration{0});
    reading_at(Place(fields.place(), "waitSeconds"),
               [wait] { require_in_range("wait", wait, Duration{0}, ClaimCall::kMaxWait); });
    return ClaimCall{.request = std::move(request), .wait = wait};
  });
}

std::string write_claim(const ClaimCall& call) {
  const ClaimRequest& request = call.request;
  JsonWriter writer;
  writer.begin_object()
      .field("owner", request.owner)
      .field("worker", request.worker)
      .field("leaseSeconds", request.lease)
      .field("limit", request.limit)
      .field("maxBytes", request.max_bytes);
  if (!request.topics.only.empty() || !request.topics.except.empty()) {
    write_selection(writer.key("topics"), request.topics);
  }
  if (call.wait > Duration{0}) writer.field("waitSeconds", call.wait);
  return std::move(writer.end_object()).take();
}

std::size_t json_size(const ClaimResult& result) noexcept {
  constexpr std::size_t kMessageBytes = 624;
  std::size_t bytes = kMessageBytes;
  for (const ClaimedMessage& claimed : result) {
    bytes += kMessageBytes + json_size(claimed.message, ListPayloads::include) +
             json_size(claimed.history);
  }
  return bytes;
}

std::string write_claimed(const OwnerToken& owner, const ClaimResult& result) {
  JsonWriter writer(json_size(result));
  writer.begin_object().field("owner", owner).key("messages").begin_array();
  for (const ClaimedMessage& claimed : result) {
    writer.begin_object();
    write_message_fields(writer, claimed.message);
    write_history(writer, claimed.history);
    writer.field("delivery", static_cast<std::uint64_t>(claimed.delivery))
        .field("lockedUntil", claimed.locked_until)
        .field("eligibleAt", claimed.eligible_at)
        .field("revivedAt", claimed.revived_at);
    write_limit(writer, claimed.attempt_limit);
    writer.end_object();
  }
  writer.end_array();
  if (result.reaped.total() > 0) write_reaped(writer.key("reaped"), result.reaped);
  return std::move(writer.end_object()).take();
}

ClaimResult read_claimed(std::string_view json) {
  return read_object(json, kClaimedFields, Direction::answer, [](const ObjectReader& fields) {
    const OwnerToken owner = fields.require_as<OwnerToken>("owner");
    ClaimResult result;
    result.messages = read_array<ClaimedMessage>(
        fields.require("messages"),
        [&owner](const JsonValue& value) { return read_claimed_message(value, owner); });
    if (const auto reaped = fields.find("reaped")) {
      result.reaped = read_reaped(ObjectReader(*reaped, kReapedFields, Direction::answer));
    }
    return result;
  });
}

std::vector<Settlement> read_settlements(std::string_view json) {
  return read_owned_items<Settlement>(
      json, kSettlementFields, [](const ObjectReader& fields, Delivery delivery) {
        return Settlement{.delivery = std::move(delivery), .verdict = read_verdict(fields)};
      });
}

std::string write_settlements(std::span<const Settlement> settlements) {
  return write_batch("items", settlements, [](JsonWriter& writer, const Settlement& settlement) {
    writer.begin_object();
    write_delivery(writer, settlement.delivery);
    write_verdict(writer, settlement.verdict);
    writer.end_object();
  });
}

std::string write_settled(std::span<const SettleOutcome> outcomes) {
  return write_batch("results", outcomes, [](JsonWriter& writer, const SettleOutcome& outcome) {
    writer.begin_object().field("status", word_of(outcome.status));
    writer.field("againAt", outcome.again_at);
    if (outcome.death) writer.field("death", word_of(*outcome.death));
    if (outcome.policy) writer.field("policy", word_of(*outcome.policy));
    writer.end_object();
  });
}

std::vector<SettleOutcome> read_settled(std::string_view json) {
  return read_result_objects<SettleOutcome>(json, kSettledFields, [](const ObjectReader& fields) {
    SettleOutcome outcome{.status = read_word<SettleStatus>(fields.require("status")),
                          .again_at = fields.get<TimePoint>("againAt")};
    if (const std::optional<JsonValue> death = fields.find("death")) {
      outcome.death = read_word<SettledDeath>(*death);
    }
    if (const std::optional<JsonValue> policy = fields.find("policy")) {
      outcome.policy = read_word<PolicyOrigin>(*policy);
    }
    return outcome;
  });
}

std::vector<LeaseExtension> read_extensions(std::string_view json) {
  return read_owned_items<LeaseExtension>(
      json, kExtensionFields, [](const ObjectReader& fields, Delivery delivery) {
        return LeaseExtension{.delivery = std::move(delivery),
                              .lease = fields.get_or("leaseSeconds", defaults::kLease)};
      });
}

std::string write_extensions(std::span<const LeaseExtension> extensions) {
  return write_batch("items", extensions, [](JsonWriter& writer, const LeaseExtension& extension) {
    writer.begin_object();
    write_delivery(writer, extension.delivery);
    writer.field("leaseSeconds", extension.lease).end_object();
  });
}

std::string write_extended(std::span<const ExtendOutcome> outcomes) {
  return write_batch("results", outcomes, [](JsonWriter& writer, const ExtendOutcome& outcome) {
    writer.begin_object();
    if (outcome.locked_until) {
      writer.field("status", "Extended").field("lockedUntil", *outcome.locked_until);
    } else {
      writer.field("status", "LeaseLost");
    }
    writer.end_object();
  });
}

std::vector<ExtendOutcome> read_extended(std::string_view json) {
  return read_result_objects<ExtendOutcome>(json, kExtendedField, [](const ObjectReader& fields) {
    return ExtendOutcome{.locked_until = fields.get<TimePoint>("lockedUntil")};
  });
}

// Reap, next due ----------------------------------------------------------------------------------

ReapRequest read_reap(std::string_view json) {
  return read_object(json, kReapFields, Direction::request, [](const ObjectReader& fields) {
    ReapRequest request;
    request.limit = fields.get_or("limit", request.limit);
    return request;
  });
}

std::string write_reap(const ReapRequest& request) {
  JsonWriter writer;
  writer.begin_object().field("limit", request.limit).end_object();
  return std::move(writer).take();
}

std::string write_reaped(const ReapResult& result) {
  JsonWriter writer;
  write_reaped(writer, result);
  return std::move(writer).take();
}

ReapResult read_reaped(std::string_view json) {
  return read_object(json, kReapedFields, Direction::answer,
                     [](const ObjectReader& fields) { return read_reaped(fields); });
}

TopicSelection read_topics(std::string_view json) {
  return read_object(json, kTopicsField, Direction::request, read_topics_of);
}

std::string write_topics(const TopicSelection& topics) {
  JsonWriter writer;
  writer.begin_object().key("topics");
  write_selection(writer, topics);
  return std::move(writer.end_object()).take();
}

std::string write_next_due(const std::optional<TimePoint>& due) {
  JsonWriter writer;
  writer.begin_object().key("dueAt");
  if (due) {
    writer.value(*due);
  } else {
    writer.null();
  }
  return std::move(writer.end_object()).take();
}

std::optional<TimePoint> read_next_due(std::string_view json) {
  return read_object(json, kDueField, Direction::answer,
                     [](const ObjectReader& fields) { return fields.get<TimePoint>("dueAt"); });
}

}  // namespace oncebox::wire
