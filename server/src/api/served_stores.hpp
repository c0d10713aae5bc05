#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/shared_answer.hpp"
#include "api/waiting_claims.hpp"
#include "http/http_message.hpp"
#include "observe/metrics.hpp"
#include "observe/request_logger.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/intake.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/driver/observed_queue_operator.hpp"
#include "oncebox/engine/closing.hpp"
#include "oncebox/engine/store_calls.hpp"
#include "oncebox/fleet/set_follower.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/group_commit.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/internal/shared_mutex.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"
#include "oncebox/tracing.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::server {

/// What every group of routes is given.
struct ApiParts {
  const ServerOptions& options;
  CallPool& calls;  ///< what is about one store goes into its own lane
  Timers& timers;
  Metrics& metrics;
  Logger& logger;
  const Clock& clock;
  Tracer* tracer = nullptr;  ///< of what is published; null: nobody
};

class ServedStore;

/// A queue as one request uses it: every line carries the request's id, and a line about a lost
/// delivery or a death what the store knows of the message.
class RequestQueue {
 public:
  /// What it is made of; everything is borrowed.
  struct Parts {
    QueueStore& below;
    QueueOperator& operations;
    const std::string& name;
    Logger& logger;
    Observer& observer;
    const Clock& clock;
  };

  RequestQueue(const Parts& parts, const Request& request)
      : logger_(parts.logger, request.id),
        queue_(parts.below, parts.name, {logger_, parts.observer, parts.clock},
               DeliveryLines::looked_up),
        operations_(parts.operations, parts.below, parts.name, {logger_, parts.observer}) {}

  [[nodiscard]] QueueStore* operator->() noexcept { return &queue_; }
  [[nodiscard]] QueueOperator& operations() noexcept { return operations_; }

 private:
  RequestLogger logger_;
  ObservedQueueStore queue_;
  ObservedQueueOperator operations_;
};

/// What is read whole, however much there is, and so once for all who ask meanwhile.
struct SharedAnswers {
  SharedAnswer stats;
  SharedAnswer workers;
  SharedAnswer policies;
  SharedAnswer paused;
};

/// One queue of one store, with what the routes need of it.
struct ServedQueue {
  ServedStore& store;
  CallLane& calls;  ///< of the store
  CallLane& looks;  ///< the same, for calls that read messages and change nothing
  QueueKind kind;
  std::string log_name;            ///< in the lines about it
  QueueStore& queue;               ///< with log and metrics
  QueueOperator& operations;       ///< the same
  detail::Intake& singles;         ///< lets single messages share commits
  detail::Intake& strict_singles;  ///< the same, and what came first stands
  std::size_t max_payload_bytes;
  std::unique_ptr<SharedAnswers> shared = std::make_unique<SharedAnswers>();
  std::unique_ptr<WaitingClaims> claims = {};
  std::shared_ptr<WorkListener> watch = {};  ///< tells event streams of work, once one wants it

  [[nodiscard]] RequestQueue for_request(const Request& request) const;
};

/// A store as the server serves it: with log and metrics around its queues, with group commits
/// between many connections and its batches, and with what the service keeps beside it in memory.
/// The store stays open as long as this lives. Whatever goes on with it holds it, so one that was
/// removed is closed when the last request about it is answered.
class ServedStore {
 public:
  ServedStore(MemberStorePtr member, const ApiParts& parts);

  [[nodiscard]] const std::string& name() const noexcept { return member_->name(); }
  /// What opened it, to tell it from another of the same name.
  [[nodiscard]] const MemberStorePtr& member() const noexcept { return member_; }
  [[nodiscard]] StoreMetrics& metrics() noexcept { return *metrics_; }
  [[nodiscard]] const ApiParts& parts() const noexcept { return parts_; }

  /// Without log and metrics: its queues are below.
  [[nodiscard]] Store& store() noexcept { return member_->store(); }
  [[nodiscard]] ServedQueue& queue(QueueKind kind) noexcept;
  [[nodiscard]] IdempotencyStore& keys() { return store().keys(); }
  [[nodiscard]] PolicyStore& policies() { return store().policies(); }
  [[nodiscard]] EndpointStore& endpoints() { return store().endpoints(); }
  [[nodiscard]] AuditTrail& audit() { return store().audit(); }

  using Begins = GroupCommit<BeginRequest, BeginOutcome>;
  using Completions = GroupCommit<CompleteRequest, CompleteOutcome>;
  [[nodiscard]] Begins& begins() noexcept { return begins_; }
  [[nodiscard]] Completions& completions() noexcept { return completions_; }

  /// Sets the configured rules for topics and endpoints, in the lane of the store, and tries again
  /// when that fails. The store is served meanwhile, by the rules that it has. Calls `then` once
  /// they are set; if there are none, at once. To be called once; `self` is this object.
  void set_rules(const std::weak_ptr<ServedStore>& self,
                 std::function<void(const std::shared_ptr<ServedStore>&)> then);

  /// Whether somebody has used it since the last call, or waits for it.
  [[nodiscard]] bool take_use() noexcept;
  void note_use() noexcept { is_used_.store(true, std::memory_order_relaxed); }

  /// How it was when it was last asked.
  [[nodiscard]] Health last_health() const;
  /// Asks it.
  Health ask_health();
  void note_health(const Health& health);

 private:
  const MemberStorePtr member_;
  const ApiParts& parts_;
  const std::shared_ptr<StoreMetrics> metrics_;
  /// What a queue is served with.
  struct QueueService {
    QueueService(MemberStore& member, QueueKind kind, const ApiParts& parts, Observer& observer);

    const std::string name;
    detail::Intake intake;
    detail::Intake strict_intake;
    ObservedQueueOperator operations;
  };

  [[nodiscard]] ServedQueue served(QueueKind kind, QueueService& service);

  QueueService inbox_service_;
  QueueService outbox_service_;
  QueueService deliveries_service_;
  Begins begins_;
  Completions completions_;

 public:
  CallLane calls;  ///< what waits for this store
  /// Few at a time: what they read may be large, and claims do not stand behind them.
  CallLane looks;
  ServedQueue inbox;
  ServedQueue outbox;
  ServedQueue deliveries;
  std::atomic<bool> is_watched = false;  ///< event streams hear of its work, or are about to

 private:
  /// False when it will be tried again.
  [[nodiscard]] bool try_to_set_rules();

  detail::Backoff rules_pause_;  // of the task below alone
  engine::StoreCalls::Lane rules_;
  std::atomic<bool> is_used_ = true;
  mutable detail::Mutex mutex_;
  Health health_ ONCEBOX_GUARDED_BY(mutex_);
};

using ServedStorePtr = std::shared_ptr<ServedStore>;
/// Holds the store, too.
using ServedQueuePtr = std::shared_ptr<ServedQueue>;

/// The store of this name; an empty one means the default. Throws `not_found`, and `unavailable`
/// while the store is down.
using FindStore = std::function<ServedStorePtr(std::string_view name)>;

/// The stores of a set as they are served, each from when it is opened until it is removed.
class ServedStores {
 public:
  /// Called for each store: when `find` begins to find it, when its configured rules and endpoints
  /// are set, which may be after it has left the set, and when `find` no longer finds it.
  struct Followers {
    std::function<void(const ServedStorePtr&)> on_opened;
    std::function<void(const ServedStorePtr&)> on_ready;
    std::function<void(const ServedStorePtr&)> on_removed;
  };

  ServedStores(StoreSet& set, const ApiParts& parts);
  /// Closed before: see `close`.
  ~ServedStores() = default;
  ServedStores(const ServedStores&) = delete;
  ServedStores& operator=(const ServedStores&) = delete;

  /// The stores of the set come in from now on.
  void start(Followers followers);

  /// An empty name means the default. Throws `not_found`, and `unavailable` while it is down.
  [[nodiscard]] ServedStorePtr find(std::string_view name);
  /// The open store of this name, or null.
  [[nodiscard]] ServedStorePtr find_open(std::string_view name) const;
  /// All that are open, by name.
  [[nodiscard]] std::vector<ServedStorePtr> all() const;

  [[nodiscard]] const std::string& default_name() const noexcept { return default_name_; }
  [[nodiscard]] StoreSet& set() noexcept { return set_; }

  void drain() noexcept;
  /// Answers the claims that wait, and lets every store go. Calls and timers may still hold some.
  void close() noexcept;

 private:
  void on_opened(const MemberStorePtr& member) noexcept;
  void add(const MemberStorePtr& member);
  void on_removed(const MemberStorePtr& member) noexcept;
  void retire(ServedStorePtr store);

  StoreSet& set_;
  const ApiParts& parts_;
  const std::string default_name_;
  FairPlaces places_;  ///< of claims that wait
  Followers followers_;
  engine::Closing closer_{parts_.clock};

  mutable detail::SharedMutex mutex_;
  std::map<std::string, ServedStorePtr, std::less<>> stores_ ONCEBOX_GUARDED_BY(mutex_);
  std::shared_ptr<SetFollower> follower_;
};

}  // namespace oncebox::server
