#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/served_stores.hpp"
#include "http/http_message.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/wire/message_json.hpp"

/// What a request to take messages in says outside of them: how to store them, and what holds
/// where they do not say it themselves.
namespace oncebox::server {

/// What to do with a message for an outbox that lacks headers which `Outbox` would stamp.
enum class MissingHeaders { stamp, leave };

/// How to store messages, by the query.
struct IntakeSettings {
  EnqueueOptions options = {};
  MissingHash missing_hash = MissingHash::sha256_of_payload;
  MissingHeaders missing_headers = MissingHeaders::stamp;

  /// Whether the messages that share commits are stored like this.
  [[nodiscard]] bool like_shared(const EnqueueOptions& shared) const noexcept {
    return options.on_hash_mismatch == shared.on_hash_mismatch &&
           options.on_dead == shared.on_dead && missing_hash == MissingHash::sha256_of_payload;
  }
};

/// Reads `onHashMismatch` (Warn, Reject, Quarantine), `onDead` (Keep, Revive), `missingHash`
/// (Sha256, Leave) and `missingHeaders` (Stamp, Leave). Throws `invalid_argument` for anything
/// else.
[[nodiscard]] IntakeSettings read_intake_query(std::span<const wire::QueryParameter> query,
                                               const EnqueueOptions& defaults);

/// The Idempotency-Key of a request; one in quotes, as a structured field, without them.
[[nodiscard]] std::optional<std::string> idempotency_key(const Request& request);

/// A traceparent by the rules of W3C; what is not one counts as absent.
[[nodiscard]] std::optional<std::string_view> traceparent(const Request& request) noexcept;

/// For one message: the key is its id.
[[nodiscard]] wire::MessageDefaults single_defaults(const Request& request, const Clock& clock);

/// For many: their ids, and what is stored as their keys, are the key with their place behind it,
/// so that no two are taken for the same.
class BatchDefaults {
 public:
  /// The clock is borrowed.
  BatchDefaults(const Request& request, const Clock& clock);
  BatchDefaults(const BatchDefaults&) = delete;
  BatchDefaults& operator=(const BatchDefaults&) = delete;

  [[nodiscard]] const wire::MessageDefaults& message() const noexcept { return message_; }
  /// What message() cannot say: to be called for each message that was read.
  void complete(Message& message, std::size_t place) const;
  [[nodiscard]] MessageId make_id(std::size_t place) const;

 private:
  [[nodiscard]] std::string key_at(std::size_t place) const;

  const Clock& clock_;
  const std::optional<std::string> key_;
  wire::MessageDefaults message_;
};

/// Does for a message what an `Inbox`, or for the outbox an `Outbox`, does before it stores one.
/// Throws `invalid_argument` for a payload that the store does not take, and for too many headers.
void prepare_for(const ServedQueue& queue, const IntakeSettings& settings, TimePoint now,
                 Message& message);

}  // namespace oncebox::server
