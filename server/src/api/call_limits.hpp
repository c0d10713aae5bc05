#pragma once

#include <span>

#include "http/http_message.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/wire/operator_json.hpp"

namespace oncebox::server {

/// Holds a call to the sources and topics that its token is limited to; without limits it does
/// nothing. What is outside of them throws `NotAllowed`. Stores are seen to by `add_store_route`.
///
/// A call that names messages is refused when one of them is outside. A call that chooses among
/// messages gets only those inside: its choice must lie within the limits, and one that is left
/// open becomes the limit where that is a single one.
class CallLimits {
 public:
  /// The request is borrowed.
  explicit CallLimits(const Request& request) noexcept : limits_(request.principal.limits.get()) {}

  /// Whether the token may touch every message of a store.
  [[nodiscard]] bool allow_all_messages() const noexcept {
    return limits_ == nullptr || limits_->allow_all_messages();
  }

  /// A message that is to be taken in.
  void require(const Message& message) const;
  /// What is stored under the keys of messages that are to be taken in: it would be replaced. Looks
  /// into the store if `looks_up_topics`.
  void require_replaced(QueueStore& queue, std::span<const Message> messages) const;
  [[nodiscard]] bool looks_up_topics() const noexcept {
    return limits_ != nullptr && !limits_->topics.empty();
  }
  /// Messages that may be there: their topics are looked up. A key that is not known, or was only
  /// observed, has no topic.
  void require(QueueStore& queue, std::span<const MessageKey> keys) const;

  /// For claims, which choose by topic: a token that is limited to sources is refused.
  void narrow(TopicSelection& topics) const;
  void narrow(MessageFilter& filter) const;
  void narrow(QueueStore& queue, wire::MessageSelection& which) const;
  /// Leaves the topics that the token may see; one that is limited to sources is refused.
  void narrow(QueueStats& stats) const;

 private:
  void require_source(const Source& source) const;
  void require_no_source_limit() const;

  const TokenLimits* limits_;
};

}  // namespace oncebox::server
