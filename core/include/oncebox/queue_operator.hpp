#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/message.hpp"
#include "oncebox/operator_action.hpp"
#include "oncebox/past_content.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/topic_pattern.hpp"
#include "oncebox/worker.hpp"

namespace oncebox {

/// From `from` on, and before `until`; an absent end is open.
struct TimeRange {
  std::optional<TimePoint> from = {};
  std::optional<TimePoint> until = {};

  [[nodiscard]] bool contains(TimePoint time) const noexcept {
    return (!from || time >= *from) && (!until || time < *until);
  }
};

/// Which messages are meant: those that satisfy every condition given. An empty filter means all.
struct MessageFilter {
  std::vector<Status> statuses = {};  ///< any of these; empty: any
  std::vector<State> states = {};     ///< any of these; empty: any
  /// Of the waiting messages only those that wait for any of these; empty: all. Without `states`
  /// only waiting messages are meant.
  std::vector<WaitingFor> waiting_for = {};
  std::optional<TopicPattern> topic = {};
  std::optional<Source> source = {};
  std::optional<MessageId> message_id = {};
  std::optional<PartitionKey> partition_key = {};
  std::optional<std::string> error_contains = {};  ///< part of the last error, case-sensitive
  TimeRange first_seen = {};
  TimeRange finished = {};  ///< when it became done or dead; excludes what is unfinished
  std::optional<TimePoint> expires_after = {};  ///< those that expire later than that, or never

  /// What a filter looks at, so that a store can ask before it copies a message. Borrowed.
  struct Subject {
    const MessageKey& key;
    State state = State::seen;
    std::optional<WaitingFor> waiting_for = {};
    const Topic* topic = nullptr;                 ///< null: never enqueued
    const PartitionKey* partition_key = nullptr;  ///< null: none
    const MessageHistory& history;
    std::optional<TimePoint> finished_at;
    std::optional<TimePoint> expires_at = {};
  };

  [[nodiscard]] bool matches(const Subject& subject) const;
  [[nodiscard]] bool matches(const MessageRecord& record) const;

  /// Whether messages in this state can match.
  [[nodiscard]] bool wants(State state, std::optional<WaitingFor> waits_for) const noexcept;

  /// The filter of those messages to which an action applies; nothing when there can be none.
  [[nodiscard]] std::optional<MessageFilter> narrowed_to(const OperatorAction& action) const;
};

/// A place in a list, to be handed back unchanged.
class Cursor {
 public:
  explicit Cursor(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const std::string& str() const noexcept { return text_; }
  friend bool operator==(const Cursor&, const Cursor&) = default;

 private:
  std::string text_;
};

enum class ListOrder { oldest_first, newest_first };

struct ListRequest {
  MessageFilter filter = {};
  ListOrder order = ListOrder::oldest_first;  ///< by when the key was first stored
  ListPayloads payloads = ListPayloads::omit;
  std::optional<Cursor> after = {};
  std::size_t limit = 100;
  /// The page ends, at the latest, before its records would have more bytes than this together, as
  /// `bytes_of` counts them; the first is there whatever its size.
  std::size_t max_bytes = limits::kMaxClaimBytes;
};

struct MessagePage {
  std::vector<MessageRecord> records;
  std::optional<Cursor> next = {};  ///< absent on the last page
};

/// How many messages wait for what.
struct WaitingCounts {
  std::size_t content = 0;
  std::size_t partition = 0;
  std::size_t due = 0;
  std::size_t backoff = 0;
  std::size_t pause = 0;

  [[nodiscard]] std::size_t& of(WaitingFor what) noexcept;
  WaitingCounts& operator+=(const WaitingCounts& more) noexcept;
  [[nodiscard]] std::size_t total() const noexcept {
    return content + partition + due + backoff + pause;
  }
  friend bool operator==(const WaitingCounts&, const WaitingCounts&) = default;
};

/// The messages of one topic by their states. Each message counts once.
struct TopicStats {
  std::optional<Topic> topic = {};  ///< absent: keys that were observed but never enqueued
  std::size_t seen = 0;
  WaitingCounts waiting = {};
  std::size_t ready = 0;
  std::size_t leased = 0;
  std::size_t done = 0;
  std::size_t dead = 0;
  std::optional<TimePoint> oldest_ready_at = {};  ///< the first time at which a ready one became so
  std::optional<TimePoint> oldest_dead_at = {};   ///< when the first of the dead died

  /// Those in processing.
  [[nodiscard]] std::size_t unfinished() const noexcept { return waiting.total() + ready + leased; }
  friend bool operator==(const TopicStats&, const TopicStats&) = default;
};

struct QueueStats {
  std::vector<TopicStats>
      topics;  ///< in the order of the topics, the one without first; none is empty

  [[nodiscard]] TopicStats total() const;
};

/// For authors of stores: the filter of the dead among those that match.
[[nodiscard]] MessageFilter only_dead(MessageFilter filter);

/// For authors of stores: counts the ready messages of paused topics as waiting for that.
void count_pauses(QueueStats& stats, std::span<const TopicPattern> paused) noexcept;

struct ActOptions {
  std::string reason = {};  ///< kept with what is cancelled, and in the trail of a server
  /// Of the keys that `act` is given, only those whose messages match this are changed. They are
  /// judged in the transaction that changes them, before the first is changed. Whoever took the
  /// keys from a list gives its filter here, so that what has changed since then is left alone.
  std::optional<MessageFilter> only = {};
};

struct ReviveOptions {
  /// Zero: claimable at once, or at its due time. Otherwise the end of the delay is the due time,
  /// unless that is later. An expiry at or before the time at which it can be claimed is dropped.
  Duration delay{0};
  std::string reason = {};  ///< kept with the message
  /// Who asks; kept with an edit. A server says the name of the caller's token instead.
  std::string actor = {};
};

enum class ReviveOutcome {
  revived,
  not_dead,
  unknown,
  no_content,  ///< never enqueued, so there is nothing to edit; only `revive_edited` says so
};

/// A dead message and the payload that it is to have from now on.
struct EditedMessage {
  MessageKey key;
  Payload payload;
};

enum class PurgeOutcome { purged, not_dead, unknown };

struct PurgeOptions {
  std::string reason = {};  ///< for the trail of a server: nothing is left to keep it with
  std::optional<MessageFilter> only = {};  ///< as in `ActOptions`
};

struct CleanupRequest {
  Duration done_retention = defaults::kRetention;  ///< counted from when it became done
  std::optional<Duration> dead_retention = {};     ///< absent: dead messages are kept
  std::size_t limit = 1'000;                       ///< removed in this call at most
  std::string reason = {};                         ///< for the trail of a server
};

struct CleanupResult {
  std::size_t done_removed = 0;
  std::size_t dead_removed = 0;

  [[nodiscard]] std::size_t total() const noexcept { return done_removed + dead_removed; }
  friend bool operator==(const CleanupResult&, const CleanupResult&) = default;
};

/// What an operator does with a queue. Threads, atomicity, time, bad input and limits as for
/// `QueueStore`.
class QueueOperator {
 public:
  virtual ~QueueOperator() = default;
  QueueOperator(const QueueOperator&) = delete;
  QueueOperator& operator=(const QueueOperator&) = delete;

  /// One page. Following `next` to the end meets every message that matched all the while exactly
  /// once, whatever else changes meanwhile. Throws `invalid_argument` for a cursor that no list
  /// gave.
  [[nodiscard]] MessagePage list(const ListRequest& request, const CallOptions& call = {});

  [[nodiscard]] std::size_t count(const MessageFilter& filter, const CallOptions& call = {});

  [[nodiscard]] QueueStats stats(const CallOptions& call = {});

  /// Who claims from this queue, by name: those that hold messages or were seen within
  /// `kWorkerRetention`; of very many those that hold some, then those that were seen last.
  [[nodiscard]] std::vector<WorkerRecord> workers(const CallOptions& call = {});

  /// Brings dead messages back: attempts, deliveries and lapses begin at 0 again, an expiry that
  /// has passed is dropped, the last error is kept. A message of a partition is the head of its key
  /// again. One that was never enqueued becomes seen.
  std::vector<ReviveOutcome> revive(std::span<const MessageKey> keys,
                                    const ReviveOptions& options = {},
                                    const CallOptions& call = {});

  /// Revives up to `limit` dead messages that match, oldest first, and tells how many.
  std::size_t revive_matching(const MessageFilter& filter, const ReviveOptions& options,
                              std::size_t limit, const CallOptions& call = {});

  /// The same with other payloads: the content version grows, the hash is made anew (SHA-256), and
  /// what was there is kept (see `past_contents`). Headers stay. Throws `conflict` when a message
  /// was edited too often, `invalid_argument` for a payload above the store's limit.
  std::vector<ReviveOutcome> revive_edited(std::span<const EditedMessage> edits,
                                           const ReviveOptions& options = {},
                                           const CallOptions& call = {});

  /// What edits replaced, oldest first; none for a key that is not known.
  [[nodiscard]] std::vector<PastContent> past_contents(const MessageKey& key,
                                                       const CallOptions& call = {});

  /// Does something with these messages, in their order.
  std::vector<ActOutcome> act(std::span<const MessageKey> keys, const OperatorAction& action,
                              const ActOptions& options = {}, const CallOptions& call = {});

  /// Does it with up to `limit` messages that match and to which it applies, oldest first, and
  /// tells how many. Messages that match no longer when they are locked stay as they are. What was
  /// rescheduled may match again: `act_on_all` meets each message once. Throws `invalid_argument`
  /// when the options say `only`.
  std::size_t act_matching(const MessageFilter& filter, const OperatorAction& action,
                           std::size_t limit, const ActOptions& options = {},
                           const CallOptions& call = {});

  /// How many messages `act_matching` would change now, without a limit.
  [[nodiscard]] std::size_t count_actable(const MessageFilter& filter, const OperatorAction& action,
                                          const CallOptions& call = {});

  /// Removes dead messages: `act` with `Purge`.
  std::vector<PurgeOutcome> purge(std::span<const MessageKey> keys,
                                  const PurgeOptions& options = {}, const CallOptions& call = {});
  std::size_t purge_matching(const MessageFilter& filter, std::size_t limit,
                             const PurgeOptions& options = {}, const CallOptions& call = {});

  /// Removes what has been done, or dead, for its retention; nothing else, ever. Call again
  /// while the total equals the limit.
  CleanupResult cleanup(const CleanupRequest& request = {}, const CallOptions& call = {});

 protected:
  QueueOperator() = default;

 private:
  virtual MessagePage do_list(const ListRequest& request) = 0;
  virtual std::size_t do_count(const MessageFilter& filter) = 0;
  virtual QueueStats do_stats() = 0;
  virtual std::vector<WorkerRecord> do_workers() = 0;
  virtual std::vector<ReviveOutcome> do_revive(std::span<const MessageKey> keys,
                                               const ReviveOptions& options) = 0;
  virtual std::size_t do_revive_matching(const MessageFilter& filter, const ReviveOptions& options,
                                         std::size_t limit) = 0;
  virtual std::vector<ReviveOutcome> do_revive_edited(std::span<const EditedMessage> edits,
                                                      const ReviveOptions& options) = 0;
  virtual std::vector<PastContent> do_past_contents(const MessageKey& key) = 0;
  virtual std::vector<ActOutcome> do_act(std::span<const MessageKey> keys,
                                         const OperatorAction& action,
                                         const ActOptions& options) = 0;
  /// The filter matches only messages to which the action applies.
  virtual std::size_t do_act_matching(const MessageFilter& filter, const OperatorAction& action,
                                      std::size_t limit, const ActOptions& options) = 0;
  virtual CleanupResult do_cleanup(const CleanupRequest& request) = 0;
};

/// More than one source has a message with this id.
struct Ambiguous {};

/// Looks a message up by its id alone: the record, nothing, or `Ambiguous`.
[[nodiscard]] std::variant<std::monostate, MessageRecord, Ambiguous> find_by_id(
    QueueOperator& queue, const MessageId& message_id, const CallOptions& call = {});

}  // namespace oncebox
