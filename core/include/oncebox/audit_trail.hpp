#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/topic_policy.hpp"
#include "oncebox/transaction.hpp"

/// Who changed what in a store, when, why, and with what result.
namespace oncebox {

enum class AuditAction {
  revive,
  revive_edited,
  purge,
  cleanup,
  pause,
  resume,
  set_policy,
  cancel,
  run_now,
  reschedule,
  delete_messages,
  set_endpoint,
  remove_endpoint,
  disable_endpoint,
  enable_endpoint,
  resend,
};

/// What a change of a topic's policy is called: a pause, a resumption, or more than that.
[[nodiscard]] AuditAction audit_action_of(const TopicPolicyChange& change);

/// Which part of the store was changed.
enum class AuditedPart { inbox, outbox, keys, audit_trail, deliveries, endpoints };

/// How a change ended.
enum class AuditStatus {
  succeeded,
  failed,   ///< nothing has changed
  unknown,  ///< it may have happened, or a part of it
};

/// Every value, in order; for those who write them as words.
inline constexpr AuditAction kAuditActions[] = {
    AuditAction::revive,          AuditAction::revive_edited,
    AuditAction::purge,           AuditAction::cleanup,
    AuditAction::pause,           AuditAction::resume,
    AuditAction::set_policy,      AuditAction::cancel,
    AuditAction::run_now,         AuditAction::reschedule,
    AuditAction::delete_messages, AuditAction::set_endpoint,
    AuditAction::remove_endpoint, AuditAction::disable_endpoint,
    AuditAction::enable_endpoint, AuditAction::resend};
inline constexpr AuditedPart kAuditedParts[] = {AuditedPart::inbox,      AuditedPart::outbox,
                                                AuditedPart::keys,       AuditedPart::audit_trail,
                                                AuditedPart::deliveries, AuditedPart::endpoints};
inline constexpr AuditStatus kAuditStatuses[] = {AuditStatus::succeeded, AuditStatus::failed,
                                                 AuditStatus::unknown};

[[nodiscard]] AuditedPart audited_part(QueueKind queue) noexcept;

/// What the trail calls an operator's action.
[[nodiscard]] AuditAction audit_action(const OperatorAction& action) noexcept;

[[nodiscard]] std::string_view to_string(AuditAction action) noexcept;
[[nodiscard]] std::string_view to_string(AuditedPart part) noexcept;
[[nodiscard]] std::string_view to_string(AuditStatus status) noexcept;

/// The number of an entry. Numbers grow and are never used again.
enum class AuditId : std::uint64_t {};

/// What somebody is about to do. Texts that are too long are cut.
struct AuditEntry {
  std::string actor;  ///< the name of a token, of a user of the system, or "anonymous"
  AuditAction action = AuditAction::revive;
  AuditedPart part = AuditedPart::inbox;
  std::string subject = {};  ///< what was selected, as JSON; never a payload
  std::string reason = {};   ///< empty: nobody said

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

struct AuditResult {
  AuditStatus status = AuditStatus::succeeded;
  std::size_t changed = 0;  ///< messages, keys, topics or entries
  std::string detail = {};  ///< why it did not succeed

  friend bool operator==(const AuditResult&, const AuditResult&) = default;
};

struct AuditRecord {
  AuditId id{};
  AuditEntry entry;
  TimePoint begun_at{};
  std::optional<TimePoint> finished_at = {};
  std::optional<AuditResult> result = {};  ///< absent: under way, or nobody lived to tell

  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};

/// Which entries are meant: those that satisfy every condition given.
struct AuditFilter {
  std::optional<std::string> actor = {};  ///< the whole name
  std::vector<AuditAction> actions = {};  ///< any of these; empty: any
  TimeRange begun = {};

  [[nodiscard]] bool matches(const AuditRecord& record) const;
};

struct AuditListRequest {
  AuditFilter filter = {};
  std::optional<Cursor> after = {};
  std::size_t limit = 100;
};

struct AuditPage {
  std::vector<AuditRecord> records;  ///< the newest first
  std::optional<Cursor> next = {};   ///< absent on the last page
};

struct AuditCleanupRequest {
  Duration retention = defaults::kAuditRetention;  ///< counted from when it was begun
  std::size_t limit = 1'000;                       ///< removed in this call at most
  std::string reason = {};                         ///< for the trail of a server
};

/// The trail of one store. Two steps, so that nothing is done without a trace: `begin` before the
/// change, `finish` after it. Threads, atomicity, time, bad input and limits as for `QueueStore`.
///
/// A server writes the trail of what is done through it by itself, with the name of the caller's
/// token. So with a store behind a server `begin` and `finish` write nothing: whoever works on any
/// store may call them, and everything is in the trail once.
class AuditTrail {
 public:
  virtual ~AuditTrail() = default;
  AuditTrail(const AuditTrail&) = delete;
  AuditTrail& operator=(const AuditTrail&) = delete;

  /// Durable when it returns. Throws `invalid_argument` when nobody is named.
  AuditId begin(const AuditEntry& entry, const CallOptions& call = {});

  /// An entry that has a result, or is not there any more, stays as it is.
  void finish(AuditId id, const AuditResult& result, const CallOptions& call = {});

  /// One page, as `QueueOperator::list`.
  [[nodiscard]] AuditPage list(const AuditListRequest& request = {}, const CallOptions& call = {});

  /// Removes entries past their retention and tells how many. Call again while it is the limit. An
  /// entry without a result stays, however old: so a clean-up never removes its own trace, nor that
  /// of a change of which nobody lived to tell.
  std::size_t cleanup(const AuditCleanupRequest& request = {}, const CallOptions& call = {});

 protected:
  AuditTrail() = default;

 private:
  virtual AuditId do_begin(const AuditEntry& entry) = 0;
  virtual void do_finish(AuditId id, const AuditResult& result) = 0;
  virtual AuditPage do_list(const AuditListRequest& request) = 0;
  virtual std::size_t do_cleanup(const AuditCleanupRequest& request) = 0;
};

/// What is told of a change that threw this.
[[nodiscard]] AuditResult audit_result_of(const std::exception_ptr& failure);

/// Finishes an entry; when that fails it stays without a result, which is true: whoever reads it
/// cannot know how the change ended, and the caller must not take the change for failed.
void finish_quietly(AuditTrail& trail, AuditId id, const AuditResult& result) noexcept;

/// Answers `change()`, with a trace before and after it; `count` tells how many its answer says
/// that it changed. When no trace can be written nothing is done.
template <class Change, class Count>
auto audited(AuditTrail& trail, const AuditEntry& entry, Change change, Count count) {
  const AuditId id = trail.begin(entry);
  try {
    auto answer = change();
    finish_quietly(trail, id, {.changed = count(std::as_const(answer))});
    return answer;
  } catch (...) {
    finish_quietly(trail, id, audit_result_of(std::current_exception()));
    throw;
  }
}

}  // namespace oncebox
