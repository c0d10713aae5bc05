#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/served_stores.hpp"
#include "http/http_message.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/wire/message_json.hpp"

/// What a request to take messages in says outside of them: how to store them, and what holds
/// where they do not say it themselves.
namespace oncebox::server {

/// How to store messages, by the query.
struct IntakeSettings {
  EnqueueOptions options = {};
  MissingHash missing_hash = MissingHash::sha256_of_payload;

  /// Whether the store's inbox would do the same.
  [[nodiscard]] bool like_inbox(const EnqueueOptions& inbox) const noexcept {
    return options.on_hash_mismatch == inbox.on_hash_mismatch && options.on_dead == inbox.on_dead &&
           missing_hash == MissingHash::sha256_of_payload;
  }
};

/// Reads `onHashMismatch` (Warn, Reject, Quarantine), `onDead` (Keep, Revive) and `missingHash`
/// (Sha256, Leave). Throws `invalid_argument` for anything else.
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

/// Does for a message what an inbox does before it stores one. Throws `invalid_argument` for a
/// payload that the store does not take.
void prepare_for(const ServedQueue& queue, MissingHash missing_hash, Message& message);

}  // namespace oncebox::server
