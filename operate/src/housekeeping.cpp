#include "oncebox/operate/housekeeping.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/driver/observed_queue_store.hpp"
#include "oncebox/fleet/set_follower.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/surroundings.hpp"
#include "paced_batch.hpp"
#include "store_tasks.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kMaxThreads = 64;
/// The audit trail grows slowly and is kept for long: it is looked at so many times more rarely.
constexpr int kAuditFactor = 10;
constexpr Duration kLongestInterval = std::chrono::days{1};
/// A store where nothing is found is asked so many times more rarely.
constexpr int kIdleFactor = 4;

HousekeepingOptions checked(const HousekeepingOptions& options) {
  require_in_range("reap_interval", options.reap_interval, Duration{1}, kLongestInterval);
  require_in_range("cleanup_interval", options.cleanup_interval, Duration{1}, kLongestInterval);
  require_in_range("done_retention", options.done_retention, Duration{0}, limits::kMaxRetention);
  if (options.dead_retention) {
    require_in_range("dead_retention", *options.dead_retention, Duration{0}, limits::kMaxRetention);
  }
  require_in_range("audit_retention", options.audit_retention, Duration{0}, limits::kMaxRetention);
  require_in_range("batch", options.batch, 1, limits::kMaxBatchItems);
  require_in_range("batch_time", options.batch_time, Duration{1}, kLongestInterval);
  require_in_range("threads", options.threads, 1, kMaxThreads);
  return options;
}

StepOutcome outcome_of(std::size_t changed, std::size_t limit) {
  if (changed == 0) return StepOutcome::idle;
  return changed < limit ? StepOutcome::worked : StepOutcome::more;
}

/// What has been done for a store. Safe from any thread.
class Notes {
 public:
  explicit Notes(std::string store) : figures_{.store = std::move(store)} {}

  [[nodiscard]] StoreHousekeeping get() const {
    const detail::Lock lock(mutex_);
    return figures_;
  }
  template <class Change>
  void succeeded(TimePoint now, Change change) {
    const detail::Lock lock(mutex_);
    change(figures_);
    figures_.last_run = now;
    figures_.failing_since.reset();
  }
  /// A call of this kind left more to do, or nothing. True, once, when that has lasted for long.
  bool left(std::string_view kind, StepOutcome outcome, TimePoint now) {
    const detail::Lock lock(mutex_);
    if (outcome != StepOutcome::more) {
      behind_.erase(kind);
      figures_.behind_since = earliest();
      return false;
    }
    Behind& behind = behind_.try_emplace(kind, Behind{now}).first->second;
    figures_.behind_since = earliest();
    const bool was_told = behind.is_told;
    behind.is_told = StoreHousekeeping{.store = {}, .behind_since = behind.since}.is_behind(now);
    return behind.is_told && !was_told;
  }
  void failed(TimePoint now) {
    const detail::Lock lock(mutex_);
    ++figures_.failures;
    if (!figures_.failing_since) figures_.failing_since = now;
  }

 private:
  struct Behind {
    TimePoint since;
    bool is_told = false;
  };

  [[nodiscard]] std::optional<TimePoint> earliest() const ONCEBOX_REQUIRES(mutex_) {
    std::optional<TimePoint> first;
    for (const auto& [kind, behind] : behind_)
      first = std::min(first.value_or(behind.since), behind.since);
    return first;
  }

  mutable detail::Mutex mutex_;
  StoreHousekeeping figures_ ONCEBOX_GUARDED_BY(mutex_);
  /// By the name of the task, a literal.
  std::map<std::string_view, Behind> behind_ ONCEBOX_GUARDED_BY(mutex_);
};

/// A store of a set whose queues tell what a reap buries, as those of a server do.
struct FollowedStore {
  FollowedStore(const MemberStorePtr& member, const SurroundingsOfQueues& around)
      : kept(member),
        inbox(member->store().inbox(), member->name(),
              around.of(QueueKind::inbox).of(member->name())),
        outbox(member->store().outbox(), member->name() + "/outbox",
               around.of(QueueKind::outbox).of(member->name())),
        deliveries(member->store().deliveries(), member->name() + "/deliveries",
                   around.of(QueueKind::deliveries).of(member->name())) {}

  const MemberStorePtr kept;
  ObservedQueueStore inbox;
  ObservedQueueStore outbox;
  ObservedQueueStore deliveries;
};

using NotesPtr = std::shared_ptr<Notes>;
using QueueNotes = QueueHousekeeping StoreHousekeeping::*;

}  // namespace

class Housekeeping::Impl {
 public:
  Impl(const HousekeepingOptions& options, const SurroundingsOfQueues& surroundings)
      : options_(checked(options)),
        around_(surroundings),
        tasks_("housekeeping", options_.threads, around_.logger, around_.clock) {}

  void add(HousekeptStore store) {
    const auto notes = std::make_shared<Notes>(store.name);
    std::vector<StoreTask> tasks{
        reap("reap of the inbox", store.inbox, &StoreHousekeeping::inbox, notes),
        reap("reap of the outbox", store.outbox, &StoreHousekeeping::outbox, notes),
        reap("reap of the deliveries", store.deliveries, &StoreHousekeeping::deliveries, notes),
        clean("cleanup of the inbox", store.inbox, &StoreHousekeeping::inbox, notes),
        clean("cleanup of the outbox", store.outbox, &StoreHousekeeping::outbox, notes),
        clean("cleanup of the deliveries", store.deliveries, &StoreHousekeeping::deliveries, notes),
        clean_keys(store.keys, notes),
        clean_audit(store.audit, notes)};
    tasks_.add({.store = store.name,
                .server = store.server.empty() ? store.name : store.server,
                .keep_alive = std::move(store.keep_alive)},
               std::move(tasks));
    const detail::Lock lock(mutex_);
    notes_.insert_or_assign(store.name, notes);
  }

  void remove(std::string_view name) {
    tasks_.remove(name);
    const detail::Lock lock(mutex_);
    const auto found = notes_.find(name);
    if (found != notes_.end()) notes_.erase(found);
  }

  void follow(StoreSet& stores) {
    const auto follower = std::make_shared<SetFollower>(
        SetFollower::Calls{[this](const MemberStorePtr& member) { on_opened(member); },
                           [this](const MemberStorePtr& member) { remove(member->name()); }});
    {
      const detail::Lock lock(mutex_);
      if (stopped_) return;
      followers_.push_back(follower);
    }
    stores.listen(follower);
  }

  void on_opened(const MemberStorePtr& member) noexcept {
    try {
      Store& store = member->store();
      const auto followed = std::make_shared<FollowedStore>(member, around_);
      add({.name = member->name(),
           .server = member->server(),
           .inbox = {followed->inbox, store.inbox_operator()},
           .outbox = {followed->outbox, store.outbox_operator()},
           .deliveries = {followed->deliveries, store.deliveries_operator()},
           .keys = store.keys(),
           .audit = store.audit(),
           .keep_alive = followed});
    } catch (const std::exception& failure) {
      around_.logger.log(LogLevel::error,
                         "nothing is removed from the store until it is opened again",
                         {{"store", member->name()}, {"reason", failure.what()}});
    }
  }

  void stop() {
    Followers followers;
    {
      const detail::Lock lock(mutex_);
      stopped_ = true;
      followers_.swap(followers);
    }
    for (const auto& follower : followers) follower->close();
    tasks_.stop();
  }

  [[nodiscard]] std::vector<StoreHousekeeping> figures() const {
    const detail::Lock lock(mutex_);
    std::vector<StoreHousekeeping> all;
    all.reserve(notes_.size());
    for (const auto& [name, notes] : notes_) all.push_back(notes->get());
    return all;
  }

 private:
  using Followers = std::vector<std::shared_ptr<SetFollower>>;

  StoreTask reap(std::string_view name, const HousekeptQueue& kept, QueueNotes part,
                 const NotesPtr& notes) {
    return task(name, options_.reap_interval, notes, [kept, part](Notes& to, const Step& step) {
      const ReapResult result = kept.queue.reap({.limit = step.batch});
      to.succeeded(step.now, [&](StoreHousekeeping& figures) {
        (figures.*part).released += result.released;
        (figures.*part).buried += result.buried;
      });
      return result.total();
    });
  }

  StoreTask clean(std::string_view name, const HousekeptQueue& kept, QueueNotes part,
                  const NotesPtr& notes) {
    CleanupRequest request{.done_retention = options_.done_retention,
                           .dead_retention = options_.dead_retention};
    return task(name, options_.cleanup_interval, notes,
                [&queue = kept.operations, part, request](Notes& to, const Step& step) mutable {
                  request.limit = step.batch;
                  const CleanupResult result = queue.cleanup(request);
                  to.succeeded(step.now, [&](StoreHousekeeping& figures) {
                    (figures.*part).done_removed += result.done_removed;
                    (figures.*part).dead_removed += result.dead_removed;
                  });
                  return result.total();
                });
  }

  StoreTask clean_keys(IdempotencyStore& keys, const NotesPtr& notes) {
    return task(
        "cleanup of keys", options_.cleanup_interval, notes, [&keys](Notes& to, const Step& step) {
          const std::size_t removed = keys.cleanup(step.batch);
          to.succeeded(step.now,
                       [&](StoreHousekeeping& figures) { figures.keys_removed += removed; });
          return removed;
        });
  }

  StoreTask clean_audit(AuditTrail& audit, const NotesPtr& notes) {
    AuditCleanupRequest request{.retention = options_.audit_retention};
    const Duration interval = std::min(options_.cleanup_interval * kAuditFactor, kLongestInterval);
    return task("cleanup of the audit trail", interval, notes,
                [&audit, request](Notes& to, const Step& step) mutable {
                  request.limit = step.batch;
                  const std::size_t removed = audit.cleanup(request);
                  to.succeeded(step.now, [&](StoreHousekeeping& figures) {
                    figures.audit_removed += removed;
                  });
                  return removed;
                });
  }

  struct Step {
    TimePoint now;
    std::size_t batch;
  };

  /// `work(Notes&, Step)` answers how many it changed, of a batch at most.
  template <class Work>
  StoreTask task(std::string_view name, Duration interval, const NotesPtr& notes, Work work) {
    return {.name = name,
            .interval = interval,
            .idle_interval = std::min(interval * kIdleFactor, kLongestInterval),
            .step = [this, name, work = std::move(work), notes,
                     batch = PacedBatch(options_.batch, options_.batch_time)]() mutable {
              try {
                const Step step{around_.clock.now(), batch.size()};
                const std::size_t changed = work(*notes, step);
                if (changed > 0) batch.took(around_.clock.now() - step.now);
                const StepOutcome outcome = outcome_of(changed, step.batch);
                if (notes->left(name, outcome, step.now)) tell_behind(name, *notes);
                return outcome;
              } catch (...) {
                notes->failed(around_.clock.now());
                throw;
              }
            }};
  }

  void tell_behind(std::string_view task, const Notes& notes) {
    around_.logger.log(LogLevel::warning, "housekeeping cannot keep up: more comes than is removed",
                       {{"store", notes.get().store}, {"job", task}});
  }

  const HousekeepingOptions options_;
  const SurroundingsOfQueues around_;
  mutable detail::Mutex mutex_;
  Followers followers_ ONCEBOX_GUARDED_BY(mutex_);
  bool stopped_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::map<std::string, NotesPtr, std::less<>> notes_ ONCEBOX_GUARDED_BY(mutex_);
  StoreTasks tasks_;  // last: its threads use the members above
};

Housekeeping::Housekeeping(const HousekeepingOptions& options,
                           const SurroundingsOfQueues& surroundings)
    : impl_(std::make_unique<Impl>(options, surroundings)) {}

Housekeeping::~Housekeeping() { stop(); }

void Housekeeping::add(HousekeptStore store) { impl_->add(std::move(store)); }

void Housekeeping::remove(std::string_view name) { impl_->remove(name); }

void Housekeeping::follow(StoreSet& stores) { impl_->follow(stores); }

void Housekeeping::stop() { impl_->stop(); }

std::vector<StoreHousekeeping> Housekeeping::figures() const { return impl_->figures(); }

}  // namespace oncebox
