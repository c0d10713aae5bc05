#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  /// The caller wants dead messages back, and the server's own setting keeps them dead.
  bool asks_to_revive = false;

  /// The same for messages that are held to the Idempotency-Key: it stands for one message, so the
  /// first one stands, unless the caller says otherwise.
  [[nodiscard]] IntakeSettings held_to_key() const noexcept;
};

/// Reads `onHashMismatch` (Warn, Reject, Quarantine, KeepFirst), `onDead` (Keep, Revive),
/// `missingHash` (Sha256, Leave) and `missingHeaders` (Stamp, Leave). Throws `invalid_argument` for
/// anything else.
[[nodiscard]] IntakeSettings read_intake_query(std::span<const wire::QueryParameter> query,
                                               const EnqueueOptions& defaults);

/// The Idempotency-Key of a request; one in quotes, as a structured field, without them. Throws
/// `invalid_argument` for one that is empty or has more than 1,024 bytes.
[[nodiscard]] std::optional<std::string> idempotency_key(const Request& request);

/// A traceparent by the rules of W3C; what is not one counts as absent.
[[nodiscard]] std::optional<std::string_view> traceparent(const Request& request) noexcept;

/// One message, as a request has it.
struct SingleMessage {
  Message message;
  /// The request has an Idempotency-Key, and the message does not say both its source and its id.
  bool is_held_to_key = false;
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
  void note_default_source(std::size_t place) noexcept;
  /// Whether the message at this place, the last one that was read, is held to the key: see
  /// `SingleMessage`.
  [[nodiscard]] bool is_held_to_key(std::size_t place) const noexcept {
    return held_to_key_ == place;
  }

 private:
  [[nodiscard]] std::string key_at(std::size_t place) const;

  const Clock& clock_;
  const std::optional<std::string> key_;
  std::optional<std::size_t> held_to_key_;  ///< the last such place
  wire::MessageDefaults message_;
};

/// Does for a message what an `Inbox`, or for the outbox an `Outbox`, does before it stores one.
/// Throws `invalid_argument` for a payload that the store does not take, and for too many headers.
void prepare_for(const ServedQueue& queue, const IntakeSettings& settings, TimePoint now,
                 Message& message);

/// Throws `NotAllowed` when the caller asks to revive without the scope that `/dead/revive` needs.
void require_may_revive(const Request& request, const IntakeSettings& settings);

/// Stores prepared messages. What they replace must lie within the limits of the token, too:
/// otherwise throws `NotAllowed`. A call that asks to revive goes into the audit trail.
[[nodiscard]] std::vector<EnqueueOutcome> store_messages(ServedQueue& queue, const Request& request,
                                                         std::span<const Message> messages,
                                                         const IntakeSettings& settings);

/// Messages of one request, in their order, each of which is stored by the rules for itself: one
/// that is held to the Idempotency-Key by stricter ones than one that says its source and id.
class IntakeBatch {
 public:
  /// Messages that stand next to each other and are stored by the same rules.
  struct Run {
    std::size_t first = 0;  ///< its place in the batch
    std::span<const Message> messages;
    IntakeSettings settings;
  };

  /// The queue is borrowed.
  IntakeBatch(const ServedQueue& queue, const IntakeSettings& settings)
      : queue_(queue), settings_(settings) {}

  /// Does `prepare_for`, and throws as it does; then the message is not in the batch.
  void add(Message message, bool is_held_to_key, TimePoint now);
  void clear() noexcept;
  [[nodiscard]] const std::vector<Message>& messages() const noexcept { return messages_; }
  /// How much memory it takes.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// The whole batch, in as few runs as there can be.
  [[nodiscard]] std::vector<Run> runs() const;

 private:
  [[nodiscard]] IntakeSettings settings_for(bool is_held_to_key) const noexcept;

  const ServedQueue& queue_;
  const IntakeSettings settings_;
  std::vector<Message> messages_;
  std::size_t text_bytes_ = 0;  ///< of the messages: what does not stand in the vector itself
  std::vector<bool> are_held_to_key_;  ///< one for each
};

/// Stores a batch, each of its runs in one transaction, as `store_messages` does; one that is not
/// allowed is refused before the first. When one fails after others were stored, that is
/// `outcome_unknown`: the same call can be repeated.
[[nodiscard]] std::vector<EnqueueOutcome> store_batch(ServedQueue& queue, const Request& request,
                                                      const IntakeBatch& batch);

}  // namespace oncebox::server
