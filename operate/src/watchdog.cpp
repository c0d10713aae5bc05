#include "oncebox/operate/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <map>
#include <utility>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/fleet/set_follower.hpp"
#include "oncebox/limits.hpp"
#include "store_tasks.hpp"
#include "watch_rules.hpp"

namespace oncebox {

namespace {

constexpr Duration kLongestWatchInterval = std::chrono::hours{1};
constexpr Duration kLongestWait = std::chrono::days{365};
constexpr std::size_t kMaxWatchThreads = 64;
constexpr int kIdleLooks = 4;
/// Of a server that has just started, so that its health is known soon.
constexpr Duration kFirstLookWithin = std::chrono::seconds{5};
/// A look that takes so many times as long as a slow one hangs.
constexpr int kHangs = 4;
constexpr int kBadLooks = 2;
/// No store can have this name.
constexpr const char* kOverdue = " looks that hang";

WatchdogOptions checked(const WatchdogOptions& options) {
  options.validate();
  return options;
}

/// How a store answers, from look to look.
class Answering {
 public:
  explicit Answering(Duration slow_after) : slow_after_(slow_after) {}

  std::vector<Symptom> answered(TimePoint began, TimePoint ended) {
    failures_ = 0;
    const Duration took = ended - began;
    if (took * 2 < slow_after_) {
      slow_looks_ = 0;
      return {};
    }
    if (took < slow_after_) return {{FindingCode::store_lagging, {}, Level::unclear}};
    if (slow_looks_++ == 0) slow_since_ = began;
    return {{FindingCode::store_lagging,
             {},
             level(slow_looks_),
             slow_since_,
             fmt::format("the store takes {:.1f} s to count its messages",
                         std::chrono::duration<double>(took).count())}};
  }

  std::vector<Symptom> failed(TimePoint began) {
    slow_looks_ = 0;
    if (failures_++ == 0) failing_since_ = began;
    return {{FindingCode::store_lagging,
             {},
             level(failures_),
             failing_since_,
             fmt::format("the store has failed {} times in a row", failures_)}};
  }

 private:
  static Level level(int bad_looks) { return bad_looks < kBadLooks ? Level::unclear : Level::bad; }

  const Duration slow_after_;
  int slow_looks_ = 0;
  int failures_ = 0;
  TimePoint slow_since_{};
  TimePoint failing_since_{};
};

/// One store. The rules and `answering` belong to the thread that looks, one at a time.
struct Watch {
  Watch(WatchedStore watched, const WatchdogOptions& options)
      : name(std::move(watched.name)),
        store(watched.store),
        queues{QueueRules(options), QueueRules(options), QueueRules(options)},
        answering(options.slow_after) {}

  const std::string name;
  Store& store;
  std::array<QueueRules, std::size(kQueueKinds)> queues;  ///< by kind
  Answering answering;

  mutable detail::Mutex mutex;
  Findings findings ONCEBOX_GUARDED_BY(mutex);
  std::optional<Health> health ONCEBOX_GUARDED_BY(mutex);
  std::optional<TimePoint> look_began ONCEBOX_GUARDED_BY(mutex);
};

using WatchPtr = std::shared_ptr<Watch>;

HealthStatus status_of(const WatchdogReport& report) {
  const auto is_unwell = [](const WatchedHealth& one) {
    return one.health.status != HealthStatus::healthy;
  };
  return report.findings.empty() && std::ranges::none_of(report.stores, is_unwell)
             ? HealthStatus::healthy
             : HealthStatus::degraded;
}

Symptom hanging_since(TimePoint since) {
  return {FindingCode::store_lagging, {}, Level::bad, since, "the store does not answer"};
}

/// The one thing that is found about a store as a whole.
bool is_about_answering(const Finding& finding) { return finding.queue.empty(); }

bool is_quiet(const QueueStats& stats) { return stats.total().unfinished() == 0; }

}  // namespace

void WatchdogOptions::validate() const {
  require_in_range("interval", interval, Duration{1}, kLongestWatchInterval);
  require_in_range("held_leases", held_leases, 2, 1'000'000);
  require_in_range("held_after", held_after, Duration{1}, kLongestWait);
  require_in_range("lapsed_after", lapsed_after, Duration{1}, kLongestWait);
  require_in_range("ready_after", ready_after, Duration{1}, kLongestWait);
  require_in_range("slow_after", slow_after, Duration{1}, kLongestWait);
  require_in_range("growing_looks", growing_looks, 1, 1'000);
  require_in_range("poison_window", poison_window, Duration{1}, kLongestWait);
  require_in_range("poison_deaths", poison_deaths, 1, 1'000'000);
  require_in_range("poison_percent", poison_percent, 1, 100);
  require_in_range("threads", threads, 1, kMaxWatchThreads);
}

class Watchdog::Impl {
 public:
  Impl(const WatchdogOptions& options, std::vector<LookListener*> listeners,
       const Surroundings& surroundings)
      : options_(checked(options)),
        logger_(surroundings.logger),
        clock_(surroundings.clock),
        listeners_(std::move(listeners)),
        tasks_("a look at the store", options_.threads, logger_, clock_) {
    // For the log: `report` does not need it.
    tasks_.add({.store = kOverdue, .server = kOverdue},
               {{.name = "looks that hang",
                 .interval = options_.interval,
                 .idle_interval = options_.interval,
                 .step = [this] { return look_for_hanging(), StepOutcome::worked; }}});
  }

  void add(WatchedStore watched) {
    StoreTasks::Added added{.store = watched.name,
                            .server = watched.server.empty() ? watched.name : watched.server,
                            .keep_alive = std::move(watched.keep_alive)};
    const auto watch = std::make_shared<Watch>(std::move(watched), options_);
    tasks_.add(std::move(added), {{.name = "look",
                                   .interval = options_.interval,
                                   .idle_interval = options_.interval * kIdleLooks,
                                   .step = [this, watch] { return look(*watch); },
                                   .first_within = std::min(options_.interval, kFirstLookWithin)}});
    const detail::Lock lock(mutex_);
    watches_.insert_or_assign(watch->name, watch);
  }

  void remove(const std::string& name) {
    tasks_.remove(name);
    {
      const detail::Lock lock(mutex_);
      watches_.erase(name);
    }
    for (LookListener* listener : listeners_) listener->on_removed(name);
  }

  void follow(StoreSet& stores) { stores.listen(follower_); }

  void on_opened(const MemberStorePtr& member) noexcept {
    try {
      add({.name = member->name(),
           .server = member->server(),
           .store = member->store(),
           .keep_alive = member});
    } catch (const std::exception& failure) {
      logger_.log(LogLevel::error, "the store is not watched until it is opened again",
                  {{"store", member->name()}, {"reason", failure.what()}});
    }
  }

  void stop() {
    follower_->close();
    tasks_.stop();
  }

  [[nodiscard]] WatchdogReport report() const {
    WatchdogReport report;
    const TimePoint now = clock_.now();
    const detail::Lock lock(mutex_);
    for (const auto& [name, watch] : watches_) {
      const detail::Lock watch_lock(watch->mutex);
      if (watch->health) report.stores.push_back({name, *watch->health});
      std::vector<Finding> findings = watch->findings.all();
      // The caller's thread looks as well: all threads of the watchdog may hang.
      if (hangs(*watch, now) && std::ranges::none_of(findings, is_about_answering)) {
        const Symptom symptom = hanging_since(now - hangs_after());
        findings.push_back({symptom.code, name, {}, {}, symptom.since, symptom.detail});
      }
      std::ranges::move(findings, std::back_inserter(report.findings));
    }
    report.status = status_of(report);
    return report;
  }

 private:
  StepOutcome look(Watch& watch) {
    const TimePoint began = clock_.now();
    {
      const detail::Lock lock(watch.mutex);
      watch.look_began = began;
    }
    Health health = watch.store.health();
    try {
      if (health.status == HealthStatus::unavailable) {
        throw Error(ErrorCode::unavailable, health.detail);
      }
      bool is_quiet = true;
      for (const QueueKind queue : kQueueKinds) is_quiet &= look_at(watch, queue);
      note(watch, std::move(health), watch.answering.answered(began, clock_.now()));
      return is_quiet ? StepOutcome::idle : StepOutcome::worked;
    } catch (...) {
      note(watch, std::move(health), watch.answering.failed(began));
      throw;
    }
  }

  /// Whether nothing is unfinished.
  bool look_at(Watch& watch, QueueKind queue) {
    QueueOperator& operations = watch.store.queue_operator(queue);
    QueueRules& rules = watch.queues.at(static_cast<std::size_t>(queue));
    const QueueStats stats = operations.stats();
    const QueueLook look{watch.name, to_string(queue), operations, stats, clock_.now()};
    tell(update(watch, look.queue, rules.look(look)));
    if (is_watched(watch)) {
      for (LookListener* listener : listeners_) listener->on_look(look);
    }
    return is_quiet(stats);
  }

  /// False: it was removed during the look; another store of its name may be there.
  [[nodiscard]] bool is_watched(const Watch& watch) const {
    const detail::Lock lock(mutex_);
    const auto found = watches_.find(watch.name);
    return found != watches_.end() && found->second.get() == &watch;
  }

  /// The look has ended.
  void note(Watch& watch, Health health, const std::vector<Symptom>& symptoms) {
    {
      const detail::Lock lock(watch.mutex);
      watch.health = std::move(health);
      watch.look_began.reset();
    }
    tell(update(watch, {}, symptoms));
  }

  void look_for_hanging() {
    const TimePoint now = clock_.now();
    std::vector<WatchPtr> hanging;
    {
      const detail::Lock lock(mutex_);
      for (const auto& [name, watch] : watches_) {
        const detail::Lock watch_lock(watch->mutex);
        if (hangs(*watch, now)) hanging.push_back(watch);
      }
    }
    for (const WatchPtr& watch : hanging) {
      tell(update(*watch, {}, {hanging_since(now - hangs_after())}));
    }
  }

  [[nodiscard]] Duration hangs_after() const { return options_.slow_after * kHangs; }
  [[nodiscard]] bool hangs(const Watch& watch, TimePoint now) const ONCEBOX_REQUIRES(watch.mutex) {
    return watch.look_began && now - *watch.look_began >= hangs_after();
  }

  std::vector<Findings::Change> update(Watch& watch, std::string_view queue,
                                       const std::vector<Symptom>& symptoms) {
    const detail::Lock lock(watch.mutex);
    return watch.findings.update(watch.name, queue, symptoms);
  }

  void tell(const std::vector<Findings::Change>& changes) {
    for (const auto& [finding, appeared] : changes) {
      const std::string_view topic = finding.topic ? finding.topic->str() : std::string_view();
      logger_.log(appeared ? LogLevel::warning : LogLevel::info,
                  appeared ? "watchdog: needs attention" : "watchdog: has recovered",
                  {{"store", finding.store},
                   {"queue", finding.queue},
                   {"topic", topic},
                   {"code", to_string(finding.code)},
                   {"detail", finding.detail}});
    }
  }

  const WatchdogOptions options_;
  Logger& logger_;
  const Clock& clock_;
  const std::vector<LookListener*> listeners_;
  const std::shared_ptr<SetFollower> follower_ = std::make_shared<SetFollower>(
      SetFollower::Calls{[this](const MemberStorePtr& member) { on_opened(member); },
                         [this](const MemberStorePtr& member) { remove(member->name()); }});
  mutable detail::Mutex mutex_;  // taken before that of a watch
  std::map<std::string, WatchPtr, std::less<>> watches_ ONCEBOX_GUARDED_BY(mutex_);
  StoreTasks tasks_;  // last: its threads use the members above
};

Watchdog::Watchdog(const WatchdogOptions& options, std::vector<LookListener*> listeners,
                   const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(options, std::move(listeners), surroundings)) {}

Watchdog::~Watchdog() { stop(); }

void Watchdog::add(WatchedStore store) { impl_->add(std::move(store)); }

void Watchdog::remove(std::string_view name) { impl_->remove(std::string(name)); }

void Watchdog::follow(StoreSet& stores) { impl_->follow(stores); }

void Watchdog::stop() { impl_->stop(); }

WatchdogReport Watchdog::report() const { return impl_->report(); }

WatchdogReport look_once(const std::string& name, Store& store, const WatchdogOptions& options,
                         const Clock& clock) {
  options.validate();
  WatchdogReport report;
  Health health = store.health();
  try {
    Findings findings;
    for (const QueueKind kind : kQueueKinds) {
      const std::string_view queue = to_string(kind);
      QueueOperator& operations = store.queue_operator(kind);
      const QueueStats stats = operations.stats();
      QueueRules rules(options);
      (void)findings.update(name, queue, rules.look({name, queue, operations, stats, clock.now()}));
    }
    report.findings = findings.all();
  } catch (const std::exception& failure) {
    if (health.status != HealthStatus::unavailable) {
      health = {HealthStatus::unavailable, failure.what()};
    }
  }
  report.stores.push_back({name, std::move(health)});
  report.status = status_of(report);
  return report;
}

}  // namespace oncebox
