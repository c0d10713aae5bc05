#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"

/// The bodies of the work queue's calls and answers. Rules as in message_json.hpp. Every answer is
/// an object; a batch answers `{"results": […]}`, one for each item, in order.
namespace oncebox::wire {

// Enqueue: the request is a message or an array of them (message_json.hpp) ------------------------

[[nodiscard]] std::string write_enqueued(const MessageKey& key, const EnqueueOutcome& outcome);
[[nodiscard]] std::string write_enqueued(std::span<const Message> messages,
                                         std::span<const EnqueueOutcome> outcomes);
[[nodiscard]] std::vector<EnqueueOutcome> read_enqueued(std::string_view json);

/// The name of a field that counts messages with this outcome: "duplicateDone".
[[nodiscard]] std::string count_field(EnqueueStatus status);

// Observe, mark, find: {"items": […]} and {"keys": […]} -----------------------------------------

[[nodiscard]] std::vector<Observation> read_observations(std::string_view json);
[[nodiscard]] std::string write_observations(std::span<const Observation> observations);
[[nodiscard]] std::string write_observed(std::span<const ObserveOutcome> outcomes);
[[nodiscard]] std::vector<ObserveOutcome> read_observed(std::string_view json);

[[nodiscard]] std::vector<Mark> read_marks(std::string_view json);
[[nodiscard]] std::string write_marks(std::span<const Mark> marks);
[[nodiscard]] std::string write_marked(std::span<const MarkOutcome> outcomes);
[[nodiscard]] std::vector<MarkOutcome> read_marked(std::string_view json);

/// `{"keys": […], "payloads"?: false, "maxBytes"?: …}`
struct FindCall {
  std::vector<MessageKey> keys;
  FindOptions options = {};
};
[[nodiscard]] FindCall read_find(std::string_view json);
[[nodiscard]] std::string write_find(const FindCall& call);

/// The records of the first keys of a call; a key that is not known is null.
struct FoundMessages {
  std::vector<std::optional<MessageRecord>> records;
  bool truncated = false;  ///< there are more keys: the caller asks again for these
};
/// `{"results": […], "truncated"?: true}`
[[nodiscard]] std::string write_found(const FoundMessages& found,
                                      ListPayloads payloads = ListPayloads::include);
[[nodiscard]] FoundMessages read_found(std::string_view json);
/// As that of a record.
[[nodiscard]] std::size_t json_size(const FoundMessages& found, ListPayloads payloads) noexcept;

// Claim, settle, extend ---------------------------------------------------------------------------

/// A claim, and how long to wait for a message when there is none.
struct ClaimCall {
  ClaimRequest request;
  Duration wait{0};

  static constexpr Duration kMaxWait = std::chrono::seconds{60};
};

/// An owner that is left out is made anew: the answer carries it.
[[nodiscard]] ClaimCall read_claim(std::string_view json);
[[nodiscard]] std::string write_claim(const ClaimCall& call);
/// `{"owner": …, "messages": […], "reaped": {…}}`, the last when something was reaped first.
[[nodiscard]] std::string write_claimed(const OwnerToken& owner, const ClaimResult& result);
[[nodiscard]] ClaimResult read_claimed(std::string_view json);
/// As that of a record. What was reaped is not counted: it is bounded, and small.
[[nodiscard]] std::size_t json_size(const ClaimResult& result) noexcept;

/// `{"items": [{source, messageId, owner, delivery?, verdict: Ack|Abandon|Fail|Release, error?,
/// delaySeconds?}]}`; an owner beside the items holds for those that have none.
[[nodiscard]] std::vector<Settlement> read_settlements(std::string_view json);
[[nodiscard]] std::string write_settlements(std::span<const Settlement> settlements);
[[nodiscard]] std::string write_settled(std::span<const SettleOutcome> outcomes);
[[nodiscard]] std::vector<SettleOutcome> read_settled(std::string_view json);

[[nodiscard]] std::vector<LeaseExtension> read_extensions(std::string_view json);
[[nodiscard]] std::string write_extensions(std::span<const LeaseExtension> extensions);
[[nodiscard]] std::string write_extended(std::span<const ExtendOutcome> outcomes);
[[nodiscard]] std::vector<ExtendOutcome> read_extended(std::string_view json);

[[nodiscard]] ReapRequest read_reap(std::string_view json);
[[nodiscard]] std::string write_reap(const ReapRequest& request);
/// `{"released": …, "buried": …, "deaths": [{source, messageId, topic, error}]}`
[[nodiscard]] std::string write_reaped(const ReapResult& result);
[[nodiscard]] ReapResult read_reaped(std::string_view json);

/// `{"topics": {"only": […], "except": […]}}`; an exact topic that ends in `*` is written as
/// `{"exact": "…"}`.
[[nodiscard]] TopicSelection read_topics(std::string_view json);
[[nodiscard]] std::string write_topics(const TopicSelection& topics);
/// `{"dueAt": …}`, null when nothing waits for a time.
[[nodiscard]] std::string write_next_due(const std::optional<TimePoint>& due);
[[nodiscard]] std::optional<TimePoint> read_next_due(std::string_view json);

}  // namespace oncebox::wire
