#include "api/intake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "http/incoming_request.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/outgoing_headers.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::server {

namespace {

constexpr std::string_view kDefaultSource = "http";

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

IntakeSettings read_intake_query(std::span<const wire::QueryParameter> query,
                                 const EnqueueOptions& defaults) {
  static constexpr std::array kMismatch{
      std::pair{std::string_view("Warn"), HashMismatchPolicy::warn},
      std::pair{std::string_view("Reject"), HashMismatchPolicy::reject},
      std::pair{std::string_view("Quarantine"), HashMismatchPolicy::quarantine}};
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
    } else if (parameter->name == "onDead") {
      settings.options.on_dead = read_word(*parameter, kDead);
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

std::optional<std::string> idempotency_key(const Request& request) {
  const auto field = request.fields.get("Idempotency-Key");
  if (!field) return std::nullopt;
  if (field->empty()) {
    throw Error(ErrorCode::invalid_argument, "the field Idempotency-Key is empty");
  }
  if (field->size() < 2 || field->front() != '"' || field->back() != '"') {
    return std::string(*field);
  }
  std::string key;
  const std::string_view quoted = field->substr(1, field->size() - 2);
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] == '\\' && i + 1 < quoted.size()) ++i;
    key += quoted[i];
  }
  return key;
}

std::optional<std::string_view> traceparent(const Request& request) noexcept {
  const auto field = request.fields.get("traceparent");
  return field ? read_traceparent(*field) : std::nullopt;
}

wire::MessageDefaults single_defaults(const Request& request, const Clock& clock) {
  wire::MessageDefaults defaults{.source = kDefaultSource, .make_id = {}};
  if (const auto key = idempotency_key(request)) {
    defaults.headers.set(header_names::kIdempotencyKey, *key);
    defaults.make_id = [id = MessageId(*key)](std::size_t) { return id; };
  } else {
    defaults.make_id = [&clock](std::size_t) { return new_message_id(clock); };
  }
  add_trace(defaults, request);
  return defaults;
}

BatchDefaults::BatchDefaults(const Request& request, const Clock& clock)
    : clock_(clock),
      key_(idempotency_key(request)),
      message_{.source = kDefaultSource,
               .make_id = [this](std::size_t place) { return make_id(place); }} {
  add_trace(message_, request);
}

MessageId BatchDefaults::make_id(std::size_t place) const {
  return key_ ? MessageId(key_at(place)) : new_message_id(clock_);
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

}  // namespace oncebox::server
