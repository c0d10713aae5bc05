#include "oncebox/fleet/store_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/driver/store_url.hpp"
#include "oncebox/engine/closing.hpp"
#include "oncebox/engine/exception_text.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/limits.hpp"
#include "store_openings.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kMaxParallelOpens = 64;
constexpr Duration kMaxInterval = std::chrono::days{1};

/// The locations by name.
std::map<std::string, std::string> by_name(std::vector<StoreLocation> locations) {
  std::map<std::string, std::string> urls;
  for (StoreLocation& location : locations) {
    require_store_name(location.name);
    if (urls.contains(location.name)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the name {} is there twice", location.name));
    }
    urls.emplace(std::move(location.name), std::move(location.url));
  }
  return urls;
}

StoreSetOptions checked(const StoreSetOptions& options) {
  require_in_range("refresh_interval", options.refresh_interval, Duration{1}, kMaxInterval);
  require_in_range("first_retry", options.first_retry, Duration{1}, kMaxInterval);
  require_in_range("max_retry", options.max_retry, options.first_retry, kMaxInterval);
  require_in_range("open_wait", options.open_wait, Duration{0}, kMaxInterval);
  require_in_range("slow_open", options.slow_open, Duration{0}, kMaxInterval);
  require_in_range("parallel_opens", options.parallel_opens, std::size_t{1}, kMaxParallelOpens);
  (void)by_name(options.always);
  return options;
}

/// Calls `work(item)`, which does not throw, for each item, on up to `threads` threads; on fewer
/// when there are no more to be had.
template <class Item, class Work>
void for_each_in_parallel(std::span<Item> items, std::size_t threads, Work work) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t at = next++; at < items.size(); at = next++) work(items[at]);
  };
  std::vector<std::jthread> others;
  try {
    for (std::size_t i = 1; i < std::min(threads, items.size()); ++i) others.emplace_back(run);
  } catch (const std::exception&) {
    // This thread does it alone, or with those that have started.
  }
  run();
}

/// To each caller an exception of its own: several throw the same one at a time.
[[noreturn]] void throw_anew(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    throw Error(error.code(), error.what());
  } catch (...) {
    throw Error(ErrorCode::unavailable, detail::current_exception_text());
  }
}

}  // namespace

MemberStore::MemberStore(std::string name, std::string server, std::unique_ptr<Store> store)
    : name_(std::move(name)), server_(std::move(server)), store_(std::move(store)) {}

class StoreSet::Impl {
 public:
  Impl(StoreDiscovery discovery, OpenStore open, const StoreSetOptions& options,
       const Surroundings& surroundings, bool is_static)
      : discovery_(std::move(discovery)),
        options_(checked(options)),
        logger_(surroundings.logger),
        clock_(surroundings.clock),
        is_static_(is_static),
        refresh_in_(options_.refresh_interval),
        discovery_retry_(retries()),
        changed_(clock_),
        tried_(clock_),
        openings_(
            std::move(open),
            [this](const Opening& opening, Opened opened) { on_end(opening, std::move(opened)); },
            {.threads = options_.parallel_opens, .slow_open = options_.slow_open}, clock_) {}

  ~Impl() {
    openings_.cancel();
    {
      const detail::Lock lock(mutex_);
      is_stopping_ = true;
    }
    tried_.notify_all();
    changed_.notify_all();
    thread_ = {};
    openings_.stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// The first discovery, and from then on those of the thread.
  void start() {
    try {
      refresh();
    } catch (const std::exception&) {
      // It is in the log and in health, and comes again soon.
    }
    thread_ = std::jthread([this, refresh_at = next_refresh()] { run(refresh_at); });
  }

  RefreshResult refresh() {
    detail::Lock lock(mutex_);
    const std::uint64_t mine = ++requested_;
    if (has_turn_) {
      lock.unlock();
      logger_.log(LogLevel::debug, "refresh asked for while one is under way", {});
      lock.lock();
    }
    while (refreshed_ < mine && has_turn_) changed_.wait(mutex_);
    if (refreshed_ < mine) {
      const std::uint64_t all = requested_;  // all calls that have begun by now get this answer
      has_turn_ = true;
      lock.unlock();
      std::exception_ptr failure;
      RefreshResult result;
      try {
        result = discover_and_open();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      refreshed_ = all;
      last_result_ = std::move(result);
      last_failure_ = std::move(failure);
      has_turn_ = false;
      changed_.notify_all();
    }
    if (last_failure_) throw_anew(last_failure_);
    return last_result_;
  }

  [[nodiscard]] MemberStorePtr find(std::string_view name) const {
    const detail::Lock lock(mutex_);
    const auto found = members_.find(name);
    if (found == members_.end()) {
      require_discovered();
      throw Error(ErrorCode::not_found, "there is no store of this name");
    }
    const Member& member = found->second;
    if (member.open) return member.open;
    throw Error(ErrorCode::unavailable,
                fmt::format("the store {} is not open: {}", name, member.failure));
  }

  void require_discovered() const {
    if (was_discovered_) return;
    throw Error(ErrorCode::unavailable,
                "not all stores are known yet, as no discovery has succeeded; try again");
  }

  [[nodiscard]] std::vector<MemberStorePtr> members() const {
    const detail::Lock lock(mutex_);
    std::vector<MemberStorePtr> open;
    for (const auto& [name, member] : members_) {
      if (member.open) open.push_back(member.open);
    }
    return open;
  }

  [[nodiscard]] std::vector<std::string> names() const {
    const detail::Lock lock(mutex_);
    std::vector<std::string> all;
    all.reserve(members_.size());
    for (const auto& [name, member] : members_) all.push_back(name);
    return all;
  }

  [[nodiscard]] std::vector<MemberState> states() const {
    const detail::Lock lock(mutex_);
    std::vector<MemberState> all;
    all.reserve(members_.size());
    for (const auto& [name, member] : members_) {
      all.push_back({name, member.open, member.open ? std::string() : member.failure});
    }
    return all;
  }

  [[nodiscard]] std::uint64_t changes_of_names() const noexcept { return changes_of_names_; }

  [[nodiscard]] Health discovery_health() const {
    const detail::Lock lock(mutex_);
    return discovery_health_;
  }

  [[nodiscard]] StoreSetHealth health() {
    struct Asked {
      MemberStorePtr open;
      MemberHealth* answer;
    };
    StoreSetHealth health;
    std::vector<Asked> asked;
    {
      const detail::Lock lock(mutex_);
      health.discovery = discovery_health_;
      health.members.reserve(members_.size());  // so that they stay where they are
      for (const auto& [name, member] : members_) {
        health.members.push_back({name, {HealthStatus::unavailable, member.failure}});
        if (member.open) asked.push_back({member.open, &health.members.back()});
      }
    }
    for_each_in_parallel(std::span(asked), options_.parallel_opens,
                         [](Asked& one) { one.answer->health = one.open->store().health(); });
    return health;
  }

  void listen(const std::shared_ptr<StoreSetListener>& listener) {
    const detail::Lock lock(listening_);
    for (const MemberStorePtr& member : members()) listener->on_opened(member);
    listeners_.push_back(listener);
  }

 private:
  struct Member {
    std::string url;
    std::uint64_t id;       ///< no other has had it: a store may be gone, or moved, when it is open
    detail::Backoff retry;  ///< the pause before it is tried again
    MemberStorePtr open = {};
    std::string failure = "it is being opened";
    bool is_opening = false;
    bool is_awaited = false;  ///< by the refresh under way
    SteadyTime tried_at = SteadyTime::min();
    SteadyTime retry_at = SteadyTime::min();
  };

  [[nodiscard]] detail::Backoff::Bounds retries() const {
    return {.first = options_.first_retry, .longest = options_.max_retry};
  }

  void run(SteadyTime refresh_at) {
    while (wait_until_due(refresh_at)) {
      const bool is_retry = clock_.steady() < refresh_at;
      try {
        if (is_retry) {
          open(Which::due, Await::nothing);
        } else {
          refresh();
        }
      } catch (const std::exception& failure) {
        // What discovery throws is logged there; this is the machine's memory, or its threads.
        if (is_retry) {
          logger_.log(LogLevel::error, "stores that could not be opened are tried again later",
                      {{"reason", failure.what()}});
        }
      }
      if (!is_retry) refresh_at = next_refresh();
    }
  }

  /// Waits until a refresh, or another try to open a store, is due; false when the set ends.
  [[nodiscard]] bool wait_until_due(SteadyTime refresh_at) {
    const detail::Lock lock(mutex_);
    while (!is_stopping_) {
      const SteadyTime due_at = std::min(refresh_at, next_retry());
      if (clock_.steady() >= due_at) return true;
      changed_.wait_until(mutex_, due_at);
    }
    return false;
  }

  [[nodiscard]] SteadyTime next_refresh() const {
    if (is_static_) return SteadyTime::max();
    const detail::Lock lock(mutex_);
    return clock_.steady() + refresh_in_;
  }

  [[nodiscard]] SteadyTime next_retry() const ONCEBOX_REQUIRES(mutex_) {
    SteadyTime earliest = SteadyTime::max();
    for (const auto& [name, member] : members_) {
      if (!member.open && !member.is_opening) earliest = std::min(earliest, member.retry_at);
    }
    return earliest;
  }

  // For the thread that has the turn
  // ---------------------------------------------------------------------

  RefreshResult discover_and_open() {
    std::map<std::string, std::string> wanted;
    try {
      std::vector<StoreLocation> all = options_.always;
      for (StoreLocation& found : discovery_()) all.push_back(std::move(found));
      wanted = by_name(std::move(all));
    } catch (...) {
      note_discovery(detail::current_exception_text());
      (void)adopt(by_name(options_.always), Known::some);
      open(Which::due, Await::all);
      wait_for_openings();
      throw;
    }
    RefreshResult result = adopt(std::move(wanted), Known::all);
    note_discovery(std::nullopt);
    for (const std::string& name : result.removed) {
      logger_.log(LogLevel::info, "store removed", {{"store", name}});
    }
    open(Which::all, Await::all);
    wait_for_openings();

    const detail::Lock lock(mutex_);
    for (const auto& [name, member] : members_) {
      if (!member.open) result.down.push_back(name);
    }
    return result;
  }

  void note_discovery(const std::optional<std::string>& failure) {
    {
      const detail::Lock lock(mutex_);
      refresh_in_ = options_.refresh_interval;
      discovery_health_ = {};
      if (!failure) {
        discovery_retry_.reset();
      } else {
        refresh_in_ = std::min(refresh_in_, discovery_retry_.take());
        discovery_health_ = {
            was_discovered_ ? HealthStatus::degraded : HealthStatus::unavailable,
            fmt::format("the last discovery failed, the set stays as it was: {}", *failure)};
      }
    }
    if (!failure) return;
    logger_.log(LogLevel::warning, "discovery failed, the stores stay as they are",
                {{"reason", *failure}});
  }

  enum class Known { all, some };

  /// Takes these into the set, notes which of them are elsewhere now, and lets the others go if
  /// these are all there are. In one step, so that no thread chooses among a part of them.
  RefreshResult adopt(std::map<std::string, std::string> wanted, Known known) {
    RefreshResult result;
    std::vector<MemberStorePtr> gone;
    const auto let_go = [&](Member& member) {
      if (member.open) gone.push_back(std::move(member.open));
    };
    {
      const detail::Lock telling(listening_);
      {
        const detail::Lock lock(mutex_);
        for (const auto& [name, url] : wanted) {
          const auto known_one = members_.find(name);
          const bool is_new = known_one == members_.end();
          if (!is_new && known_one->second.url == url) continue;
          (is_new ? result.added : result.reopened).push_back(name);
          // What is written from now on must not go to the old place.
          if (!is_new) let_go(known_one->second);
          members_.insert_or_assign(
              name, Member{.url = url, .id = ++last_id_, .retry = detail::Backoff(retries())});
        }
        for (auto at = members_.begin(); known == Known::all && at != members_.end();) {
          const auto here = at++;
          if (wanted.contains(here->first)) continue;
          result.removed.push_back(here->first);
          let_go(here->second);
          members_.erase(here);
        }
        changes_of_names_ += result.added.size() + result.removed.size();
        if (known == Known::all) was_discovered_ = true;
      }
      for (const MemberStorePtr& member : gone) {
        tell([&](StoreSetListener& listener) { listener.on_removed(member); });
      }
    }
    for (MemberStorePtr& member : gone) close(std::move(member));
    return result;
  }

  void wait_for_openings() {
    std::size_t left = 0;
    {
      const detail::Lock lock(mutex_);
      const SteadyTime until = clock_.steady() + options_.open_wait;
      while (awaited_ > 0 && !is_stopping_ && tried_.wait_until(mutex_, until)) continue;
      left = std::exchange(awaited_, 0);
      for (auto& [name, member] : members_) member.is_awaited = false;
    }
    if (left == 0) return;
    logger_.log(LogLevel::warning, "stores take long to open, the refresh goes on without them",
                {{"stores", left}});
  }

  // For any thread
  // ----------------------------------------------------------------------------------

  enum class Which { all, due };
  enum class Await { all, nothing };

  /// Begins to open those that are not open. What was not tried for the longest time goes first.
  void open(Which which, Await await) {
    std::vector<std::pair<SteadyTime, Opening>> closed;
    std::vector<Opening> openings;
    {
      const detail::Lock lock(mutex_);
      const SteadyTime now = clock_.steady();
      closed.reserve(members_.size());
      openings.reserve(members_.size());
      for (auto& [name, member] : members_) {
        if (member.open) continue;
        if (!member.is_opening && (which == Which::all || member.retry_at <= now)) {
          try {
            closed.push_back(
                {member.tried_at, {{name, member.url}, database_server(member.url), member.id}});
          } catch (const std::bad_alloc&) {
            continue;  // the next refresh, or the next look for what is due, tries it
          }
          member.is_opening = true;
        }
        if (member.is_opening && await == Await::all && !std::exchange(member.is_awaited, true)) {
          ++awaited_;
        }
      }
    }
    std::ranges::sort(
        closed, {}, [](const auto& one) { return std::tie(one.first, one.second.location.name); });
    for (auto& [tried_at, opening] : closed) openings.push_back(std::move(opening));
    openings_.add(std::move(openings));
  }

  /// Of an attempt to open a store.
  void on_end(const Opening& opening, Opened opened) noexcept {
    const std::string& name = opening.location.name;
    MemberStorePtr member;
    try {
      if (opened.store) {
        member = std::make_shared<MemberStore>(name, opening.server, std::move(opened.store));
      }
    } catch (const std::exception& failure) {
      opened.failure = failure.what();
    }
    if (!member) return note_failure(opening, opened);
    {
      const detail::Lock telling(listening_);
      if (!put(opening, member)) return close(std::move(member));
      tell([&](StoreSetListener& listener) { listener.on_opened(member); });
    }
    member.reset();  // a caller that waits for it may close it next, and not this thread
    logger_.log(LogLevel::info, "store opened", {{"store", name}});
    const detail::Lock lock(mutex_);
    if (Member* const same = member_of(opening)) end_wait(*same);
  }

  /// On a thread of `closing_`, for which no thread of the set waits.
  void close(MemberStorePtr member) noexcept {
    const std::string& server = member->server();
    closing_.let_go(server, std::move(member));
  }

  /// False when the set does not want it any more.
  bool put(const Opening& opening, const MemberStorePtr& store) {
    const detail::Lock lock(mutex_);
    Member* const member = member_of(opening);
    if (member == nullptr || is_stopping_) return false;
    member->open = store;
    member->is_opening = false;
    return true;
  }

  void note_failure(const Opening& opening, const Opened& opened) {
    Duration pause;
    {
      const detail::Lock lock(mutex_);
      Member* const member = member_of(opening);
      if (member == nullptr) return;
      const SteadyTime now = clock_.steady();
      pause = member->retry.take();
      member->retry_at = now + pause;
      if (opened.was_tried) member->tried_at = now;
      member->is_opening = false;
      try {
        member->failure = opened.failure;
      } catch (const std::exception&) {
        member->failure.clear();  // no memory for the reason: it is tried again all the same
      }
    }
    logger_.log(opened.was_tried ? LogLevel::warning : LogLevel::debug,
                opened.was_tried ? "store cannot be opened, will be tried again"
                                 : "store not tried, as its server does not answer",
                {{"store", opening.location.name},
                 {"pause_ms", pause},
                 {"reason", std::string_view(opened.failure)}});
    const detail::Lock lock(mutex_);
    changed_.notify_all();
    if (Member* const member = member_of(opening)) end_wait(*member);
  }

  /// Null when it has left the set meanwhile, or moved.
  [[nodiscard]] Member* member_of(const Opening& opening) ONCEBOX_REQUIRES(mutex_) {
    const auto found = members_.find(opening.location.name);
    return found == members_.end() || found->second.id != opening.id ? nullptr : &found->second;
  }

  void end_wait(Member& member) ONCEBOX_REQUIRES(mutex_) {
    if (!std::exchange(member.is_awaited, false)) return;
    if (--awaited_ == 0) tried_.notify_all();
  }

  template <class Call>
  void tell(Call call) ONCEBOX_REQUIRES(listening_) {
    std::erase_if(listeners_, [](const auto& listener) { return listener.expired(); });
    for (const auto& known : listeners_) {
      if (const auto listener = known.lock()) call(*listener);
    }
  }

  const StoreDiscovery discovery_;
  const StoreSetOptions options_;
  Logger& logger_;
  const Clock& clock_;
  const bool is_static_;

  // Taken before the other one: a listener hears of changes in the order in which they happen.
  detail::Mutex listening_;
  std::vector<std::weak_ptr<StoreSetListener>> listeners_ ONCEBOX_GUARDED_BY(listening_);

  mutable detail::Mutex mutex_;
  std::map<std::string, Member, std::less<>> members_ ONCEBOX_GUARDED_BY(mutex_);
  std::uint64_t last_id_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> changes_of_names_ = 0;
  Health discovery_health_ ONCEBOX_GUARDED_BY(mutex_);
  std::atomic<bool> was_discovered_ = false;  // then the names are those of a discovery
  Duration refresh_in_ ONCEBOX_GUARDED_BY(mutex_);
  detail::Backoff discovery_retry_ ONCEBOX_GUARDED_BY(mutex_);
  bool is_stopping_ ONCEBOX_GUARDED_BY(mutex_) = false;

  // One refresh at a time. The stores that it finds are opened beside it, also when it has ended.
  detail::TimedCondition changed_;  // the turn or the set ends, or a store is to be tried again
  bool has_turn_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::uint64_t requested_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::uint64_t refreshed_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  RefreshResult last_result_ ONCEBOX_GUARDED_BY(mutex_);
  std::exception_ptr last_failure_ ONCEBOX_GUARDED_BY(mutex_);
  detail::TimedCondition tried_;
  std::size_t awaited_ ONCEBOX_GUARDED_BY(mutex_) = 0;  // stores that the refresh waits for

  engine::Closing closing_{clock_};
  StoreOpenings openings_;  // these two last: they use the members above
  std::jthread thread_;
};

StoreSet::StoreSet(StoreDiscovery discovery, OpenStore open, const StoreSetOptions& options,
                   const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(std::move(discovery), std::move(open), options, surroundings,
                                   false)) {
  impl_->start();
}

StoreSet::StoreSet(std::vector<StoreLocation> locations, OpenStore open,
                   const StoreSetOptions& options, const Surroundings& surroundings) {
  static_cast<void>(by_name(locations));
  impl_ = std::make_unique<Impl>([locations = std::move(locations)] { return locations; },
                                 std::move(open), options, surroundings, true);
  impl_->start();
}

StoreSet::~StoreSet() = default;

RefreshResult StoreSet::refresh() { return impl_->refresh(); }

MemberStorePtr StoreSet::find(std::string_view name) const { return impl_->find(name); }

std::vector<MemberStorePtr> StoreSet::members() const { return impl_->members(); }

std::vector<std::string> StoreSet::names() const { return impl_->names(); }

std::vector<MemberState> StoreSet::states() const { return impl_->states(); }

std::uint64_t StoreSet::changes_of_names() const noexcept { return impl_->changes_of_names(); }

void StoreSet::require_discovered() const { impl_->require_discovered(); }

StoreSetHealth StoreSet::health() { return impl_->health(); }

Health StoreSet::discovery_health() const { return impl_->discovery_health(); }

void StoreSet::listen(const std::shared_ptr<StoreSetListener>& listener) {
  impl_->listen(listener);
}

}  // namespace oncebox
