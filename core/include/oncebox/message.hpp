#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/attempt.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/headers.hpp"
#include "oncebox/names.hpp"
#include "oncebox/payload.hpp"
#include "oncebox/retry_policy.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox {

/// Messages of higher priority are handed out first; 0 is ordinary. From -100 to 100; the
/// constructor throws `out_of_range`.
class Priority {
 public:
  static constexpr int kMin = -100;
  static constexpr int kMax = 100;

  constexpr Priority() = default;
  Priority(int value);

  [[nodiscard]] constexpr int value() const noexcept { return value_; }
  friend constexpr auto operator<=>(const Priority&, const Priority&) = default;

 private:
  std::int16_t value_ = 0;
};

/// A message as its sender gives it. Handlers get it back unchanged.
struct Message {
  MessageKey key;
  Topic topic;
  Payload payload = {};
  Headers headers = {};
  std::optional<ContentHash> hash = {};
  Priority priority = {};
  /// Fixed when the message is first enqueued: a later enqueue under the same key keeps it.
  std::optional<PartitionKey> partition_key = {};
  /// Not handed out before this time. A time in the past means at once.
  std::optional<TimePoint> due_at = {};
  /// Not handed out at or after this time: the message is then dead with the error "expired".
  std::optional<TimePoint> expires_at = {};
  /// Which request brought it here, for log lines. Stores do not keep it.
  std::string request_id = {};

  friend bool operator==(const Message&, const Message&) = default;
};

/// What a message counts where the bytes of an answer are limited: its payload and headers. The
/// names and the error that may come with it have bounds of their own.
[[nodiscard]] std::size_t bytes_of(const Message& message) noexcept;

/// The four statuses that are stored: the groups of the states.
enum class Status {
  seen,        ///< observed, but never enqueued: cannot be claimed
  processing,  ///< waiting, ready or leased
  done,        ///< handled; a later duplicate changes nothing
  dead,        ///< given up; only a revival brings it back
};

[[nodiscard]] std::string_view to_string(Status status) noexcept;

/// What a message is doing at one time. Records, lists, filters, statistics, the HTTP
/// service and the tool say it in these words.
enum class State {
  seen,     ///< observed, but never enqueued: cannot be claimed
  waiting,  ///< in processing, but cannot be claimed yet; see `WaitingFor`
  ready,    ///< can be claimed now; also while a lease that has lapsed is not reaped yet
  leased,   ///< a worker has it, and its lease ends in the future
  done,
  dead,
};

/// What must come before a waiting message can be claimed: of several things the first of these,
/// but of due time and backoff the later one.
enum class WaitingFor {
  content,    ///< it was marked as processing, but never enqueued
  partition,  ///< an older message of its partition is unfinished, or another one is leased
  due,        ///< its due time, or the end of the delay of a revival
  backoff,    ///< the end of the delay after a failure or a release
  pause,      ///< the end of the pause of its topic; apart from that it is ready
};

/// Every value, in order; for those who write them as words.
inline constexpr State kEveryState[] = {State::seen,   State::waiting, State::ready,
                                        State::leased, State::done,    State::dead};
inline constexpr WaitingFor kEveryWaitingFor[] = {WaitingFor::content, WaitingFor::partition,
                                                  WaitingFor::due, WaitingFor::backoff,
                                                  WaitingFor::pause};

[[nodiscard]] std::string_view to_string(State state) noexcept;
[[nodiscard]] std::string_view to_string(WaitingFor what) noexcept;

/// The group of a state.
[[nodiscard]] Status status_of(State state) noexcept;

/// The number of one claim of one message. Numbers grow with each claim in a queue and are never
/// used again, not even when a message is revived, or removed and enqueued anew; so (owner,
/// delivery number) tells a live holder from a stale one.
enum class DeliveryNumber : std::uint64_t {};

/// What has happened to a message so far.
struct MessageHistory {
  int attempt = 0;     ///< failed deliveries: +1 on each abandon or fail, and only then (R-09)
  int deliveries = 0;  ///< +1 on each claim
  int lapses = 0;      ///< leases that ended without a settlement: they ran out, or the message
                       ///< was cancelled or marked as dead meanwhile
  int duplicates = 0;  ///< enqueues after the first; stops at the largest int
  int content_version = 0;  ///< +1 with each new content; 0 if never enqueued
  TimePoint first_seen_at{};
  TimePoint last_seen_at{};
  std::optional<std::string> last_error = {};

  friend bool operator==(const MessageHistory&, const MessageHistory&) = default;
};

/// A message handed to one worker, until `locked_until`.
struct ClaimedMessage {
  Message message;
  MessageHistory history;
  OwnerToken owner;
  DeliveryNumber delivery{};
  TimePoint locked_until{};
  /// Since when it could be claimed: what it waited for a worker counts from here.
  TimePoint eligible_at{};
  /// When it came back from the dead the last time: its attempts and its age count from here.
  std::optional<TimePoint> revived_at = {};
  /// Where its attempts end by the store's policy of its topic, as of this claim. Nothing: the
  /// store did not say.
  std::optional<AttemptLimit> attempt_limit = {};

  friend bool operator==(const ClaimedMessage&, const ClaimedMessage&) = default;
};

/// What it counts of the bytes that a claim may hand out.
[[nodiscard]] inline std::size_t bytes_of(const ClaimedMessage& claimed) noexcept {
  return bytes_of(claimed.message);
}

/// Who holds, or last held, a message that is in processing.
struct MessageLease {
  OwnerToken owner;
  DeliveryNumber delivery{};
  TimePoint locked_until{};
  /// When the message was handed out, and to which worker. Nothing when a version of the
  /// library did it that kept neither.
  std::optional<TimePoint> leased_at = {};
  std::optional<WorkerName> worker = {};

  /// A lease that ends now has ended.
  [[nodiscard]] bool live_at(TimePoint now) const noexcept { return locked_until > now; }
  friend bool operator==(const MessageLease&, const MessageLease&) = default;
};

/// How often and why a dead message was brought back.
struct Revivals {
  int count = 0;
  std::optional<TimePoint> last_at = {};
  std::optional<std::string> last_reason = {};

  friend bool operator==(const Revivals&, const Revivals&) = default;
};

/// Everything that a store knows about one key.
struct MessageRecord {
  MessageKey key;
  Status status = Status::seen;
  State state = State::seen;                   ///< when the record was read
  std::optional<WaitingFor> waiting_for = {};  ///< while it is waiting
  /// Absent when the key was only observed, never enqueued.
  std::optional<Message> message = {};
  /// The hash last stored, by an observation or an enqueue.
  std::optional<ContentHash> hash = {};
  MessageHistory history = {};
  /// Present until the lease is settled or reaped; it may have lapsed.
  std::optional<MessageLease> lease = {};
  /// When it became, or becomes, claimable; only for an enqueued message in processing without
  /// lease.
  std::optional<TimePoint> eligible_at = {};
  /// When it became done or dead.
  std::optional<TimePoint> finished_at = {};
  Revivals revivals = {};
  /// The last attempts to handle it, oldest first. Only `find` tells them; a list does not.
  std::vector<Attempt> attempts = {};

  friend bool operator==(const MessageRecord&, const MessageRecord&) = default;
};

}  // namespace oncebox
