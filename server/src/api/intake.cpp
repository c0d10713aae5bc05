#include "api/intake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "api/call_limits.hpp"
#include "http/answers.hpp"
#include "http/incoming_request.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/outgoing_headers.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/wire/audit_json.hpp"

namespace oncebox::server {

namespace {

/// Of callers that nobody knows by name.
constexpr std::string_view kAnonymousSource = "http";

/// A longer one cannot be stored as a key.
constexpr std::size_t kMaxKeyBytes = 1'024;
/// What a text takes beyond its length: the allocator's part, and what it grew too far.
constexpr std::size_t kTextBytes = 32;

/// What a message takes beside its `sizeof`.
std::size_t text_bytes(const Message& message) {
  const std::size_t partition = message.partition_key ? message.partition_key->str().size() : 0;
  const std::size_t texts = 6 + 2 * message.headers.size();
  return bytes_of(message) + message.headers.size() * sizeof(Headers::Entry) +
         message.key.source.str().size() + message.key.message_id.str().size() +
         message.topic.str().size() + partition + message.request_id.size() + texts * kTextBytes;
}

/// Who sends a message that does not say so. Two callers that choose the same id by chance have
/// messages of their own.
Source default_source(const Request& request) {
  return request.principal.is_anonymous() ? Source(kAnonymousSource)
                                          : Source(request.principal.name);
}

template <class Value, std::size_t N>
Value read_word(const wire::QueryParameter& parameter,
                const std::array<std::pair<std::string_view, Value>, N>& words) {
  std::string known;
  for (const auto& [word, value] : words) {
    if (parameter.value == word) return value;
    known += known.empty() ? "" : ", ";
    known += word;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: must be one of {}", parameter.name, known));
}

MessageId new_message_id(const Clock& clock) { return Uuid::generate_v7(clock.now()).to_string(); }

void add_trace(wire::MessageDefaults& defaults, const Request& request) {
  if (const auto trace = traceparent(request)) {
    defaults.headers.set(header_names::kTraceparent, *trace);
  }
}

}  // namespace

IntakeSettings IntakeSettings::held_to_key() const noexcept {
  IntakeSettings settings = *this;
  if (!says_mismatch) settings.options.on_hash_mismatch = HashMismatchPolicy::keep_first;
  return settings;
}

IntakeSettings read_intake_query(std::span<const wire::QueryParameter> query,
                                 const EnqueueOptions& defaults) {
  static constexpr std::array kMismatch{
      std::pair{std::string_view("Warn"), HashMismatchPolicy::warn},
      std::pair{std::string_view("Reject"), HashMismatchPolicy::reject},
      std::pair{std::string_view("Quarantine"), HashMismatchPolicy::quarantine},
      std::pair{std::string_view("KeepFirst"), HashMismatchPolicy::keep_first}};
  static constexpr std::array kDead{std::pair{std::string_view("Keep"), DeadPolicy::keep},
                                    std::pair{std::string_view("Revive"), DeadPolicy::revive}};
  static constexpr std::array kHash{
      std::pair{std::string_view("Sha256"), MissingHash::sha256_of_payload},
      std::pair{std::string_view("Leave"), MissingHash::leave}};
  static constexpr std::array kHeaders{std::pair{std::string_view("Stamp"), MissingHeaders::stamp},
                                       std::pair{std::string_view("Leave"), MissingHeaders::leave}};

  IntakeSettings settings{.options = defaults};
  for (auto parameter = query.begin(); parameter != query.end(); ++parameter) {
    const auto same = [&](const auto& other) { return other.name == parameter->name; };
    if (std::any_of(query.begin(), parameter, same)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: given twice", clip_text(parameter->name, 100)));
    }
    if (parameter->name == "onHashMismatch") {
      settings.options.on_hash_mismatch = read_word(*parameter, kMismatch);
      settings.says_mismatch = true;
    } else if (parameter->name == "onDead") {
      settings.options.on_dead = read_word(*parameter, kDead);
      settings.asks_to_revive =
          settings.options.on_dead == DeadPolicy::revive && defaults.on_dead != DeadPolicy::revive;
    } else if (parameter->name == "missingHash") {
      settings.missing_hash = read_word(*parameter, kHash);
    } else if (parameter->name == "missingHeaders") {
      settings.missing_headers = read_word(*parameter, kHeaders);
    } else {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: not a parameter of this call; onHashMismatch, onDead, "
                              "missingHash and missingHeaders are",
                              clip_text(parameter->name, 100)));
    }
  }
  return settings;
}

namespace {

std::string unquoted(std::string_view field) {
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return std::string(field);
  std::string text;
  const std::string_view quoted = field.substr(1, field.size() - 2);
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] == '\\' && i + 1 < quoted.size()) ++i;
    text += quoted[i];
  }
  return text;
}

}  // namespace

std::optional<std::string> idempotency_key(const Request& request) {
  const auto field = request.fields.get("Idempotency-Key");
  if (!field) return std::nullopt;
  if (field->empty()) {
    throw Error(ErrorCode::invalid_argument, "the field Idempotency-Key is empty");
  }
  std::string key = unquoted(*field);
  if (key.size() > kMaxKeyBytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the field Idempotency-Key has {} bytes, and may have {}", key.size(),
                            kMaxKeyBytes));
  }
  return key;
}

std::optional<std::string_view> traceparent(const Request& request) noexcept {
  const auto field = request.fields.get("traceparent");
  return field ? read_traceparent(*field) : std::nullopt;
}

SingleMessage read_single(const Request& request, const Clock& clock) {
  const std::optional<std::string> key = idempotency_key(request);
  bool is_held_to_key = false;
  wire::MessageDefaults defaults{
      .source = default_source(request),
      .make_id =
          [&](std::size_t) {
            is_held_to_key = key.has_value();
            return key ? MessageId(*key) : new_message_id(clock);
          },
      .on_default_source = [&](std::size_t) { is_held_to_key = key.has_value(); },
      .request_id = request.id};
  if (key) defaults.headers.set(header_names::kIdempotencyKey, *key);
  add_trace(defaults, request);
  Message message = wire::read_message(request.body, defaults);
  return {std::move(message), is_held_to_key};
}

BatchDefaults::BatchDefaults(const Request& request, const Clock& clock)
    : clock_(clock),
      key_(idempotency_key(request)),
      message_{.source = default_source(request),
               .make_id = [this](std::size_t place) { return make_id(place); },
               .on_default_source = [this](std::size_t place) { note_default_source(place); },
               .request_id = request.id} {
  add_trace(message_, request);
}

MessageId BatchDefaults::make_id(std::size_t place) {
  if (!key_) return new_message_id(clock_);
  held_to_key_ = place;
  return key_at(place);
}

void BatchDefaults::note_default_source(std::size_t place) noexcept {
  if (key_) held_to_key_ = place;
}

void BatchDefaults::complete(Message& message, std::size_t place) const {
  if (!key_ || message.headers.idempotency_key()) return;
  message.headers.set(header_names::kIdempotencyKey, key_at(place));
}

std::string BatchDefaults::key_at(std::size_t place) const {
  return fmt::format("{}/{}", *key_, place);
}

void prepare_for(const ServedQueue& queue, const IntakeSettings& settings, TimePoint now,
                 Message& message) {
  require_payload_size(message.payload.size(), queue.max_payload_bytes);
  if (!message.hash && settings.missing_hash == MissingHash::sha256_of_payload) {
    message.hash = ContentHash::sha256_of(message.payload);
  }
  if (queue.kind == QueueKind::outbox && settings.missing_headers == MissingHeaders::stamp) {
    detail::stamp_outgoing(message, now);
  }
}

void require_may_revive(const Request& request, const IntakeSettings& settings) {
  if (!settings.asks_to_revive || request.principal.has(Scope::operate)) return;
  throw NotAllowed("onDead=Revive brings dead messages back, and this needs the scope operate");
}

namespace {

std::vector<EnqueueOutcome> store_allowed(ServedQueue& queue, const Request& request,
                                          std::span<const Message> messages,
                                          const IntakeSettings& settings) {
  const auto enqueue = [&] { return queue.queue.enqueue(messages, settings.options); };
  if (!settings.asks_to_revive) return enqueue();
  std::vector<MessageKey> keys;
  keys.reserve(messages.size());
  for (const Message& message : messages) keys.push_back(message.key);
  const AuditEntry entry{.actor = request.principal.name,
                         .action = AuditAction::revive,
                         .part = audited_part(queue.kind),
                         .subject = wire::audit_subject(std::move(keys))};
  const auto count_revived = [](const std::vector<EnqueueOutcome>& outcomes) {
    return static_cast<std::size_t>(
        std::ranges::count(outcomes, EnqueueStatus::revived, &EnqueueOutcome::status));
  };
  return audited(queue.store.audit(), entry, enqueue, count_revived);
}

}  // namespace

std::vector<EnqueueOutcome> store_messages(ServedQueue& queue, const Request& request,
                                           std::span<const Message> messages,
                                           const IntakeSettings& settings) {
  CallLimits(request).require_replaced(queue.queue, messages);
  return store_allowed(queue, request, messages, settings);
}

void IntakeBatch::add(Message message, bool is_held_to_key, TimePoint now) {
  prepare_for(queue_, settings_for(is_held_to_key), now, message);
  const std::size_t bytes = text_bytes(message);
  messages_.push_back(std::move(message));
  are_held_to_key_.push_back(is_held_to_key);
  text_bytes_ += bytes;
}

std::size_t IntakeBatch::bytes() const noexcept {
  return text_bytes_ + messages_.capacity() * sizeof(Message);
}

// Also the room for the messages goes: the next one may come in an hour.
void IntakeBatch::clear() noexcept {
  std::vector<Message>().swap(messages_);
  are_held_to_key_.clear();
  text_bytes_ = 0;
}

std::vector<IntakeBatch::Run> IntakeBatch::runs() const {
  std::vector<Run> runs;
  const std::span<const Message> all(messages_);
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin + 1;
    while (end < all.size() && are_held_to_key_[end] == are_held_to_key_[begin]) ++end;
    runs.push_back({.first = begin,
                    .messages = all.subspan(begin, end - begin),
                    .settings = settings_for(are_held_to_key_[begin])});
    begin = end;
  }
  return runs;
}

IntakeSettings IntakeBatch::settings_for(bool is_held_to_key) const noexcept {
  return is_held_to_key ? settings_.held_to_key() : settings_;
}

std::vector<EnqueueOutcome> store_batch(ServedQueue& queue, const Request& request,
                                        const IntakeBatch& batch) {
  CallLimits(request).require_replaced(queue.queue, batch.messages());
  std::vector<EnqueueOutcome> outcomes;
  for (const IntakeBatch::Run& run : batch.runs()) {
    try {
      std::ranges::copy(store_allowed(queue, request, run.messages, run.settings),
                        std::back_inserter(outcomes));
    } catch (const Error& error) {
      if (outcomes.empty()) throw;
      throw Error(ErrorCode::outcome_unknown,
                  fmt::format("{} of {} messages were stored, then: {}; repeat the call",
                              outcomes.size(), batch.messages().size(), error.what()));
    }
  }
  return outcomes;
}

}  // namespace oncebox::server
