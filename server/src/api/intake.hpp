#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

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
  bool says_mismatch = false;  ///< `options.on_hash_mismatch` is the caller's word

  /// The same for messages whose ids are made of the Idempotency-Key: it stands for one content,
  /// so other content under it is rejected, unless the caller says otherwise.
  [[nodiscard]] IntakeSettings for_named_by_key() const noexcept;
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

/// One message, as a request has it.
struct SingleMessage {
  Message message;
  bool is_named_by_key = false;  ///< its id is the Idempotency-Key
};

/// Throws as `wire::read_message` does.
[[nodiscard]] SingleMessage read_single(const Request& request, const Clock& clock);

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
  [[nodiscard]] MessageId make_id(std::size_t place);
  /// Whether an id was made of the key since the last call.
  [[nodiscard]] bool take_named_by_key() noexcept { return std::exchange(named_by_key_, false); }

 private:
  [[nodiscard]] std::string key_at(std::size_t place) const;

  const Clock& clock_;
  const std::optional<std::string> key_;
  bool named_by_key_ = false;
  wire::MessageDefaults message_;
};

/// Does for a message what an `Inbox`, or for the outbox an `Outbox`, does before it stores one.
/// Throws `invalid_argument` for a payload that the store does not take, and for too many headers.
void prepare_for(const ServedQueue& queue, const IntakeSettings& settings, TimePoint now,
                 Message& message);

}  // namespace oncebox::server
