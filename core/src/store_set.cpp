#include "oncebox/store_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/store_url.hpp"

namespace oncebox {

namespace {

using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

constexpr std::size_t kMaxStoreNameBytes = 64;
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

/// Of the exception that is being handled.
std::string reason() {
  try {
    throw;
  } catch (const std::exception& failure) {
    return failure.what();
  } catch (...) {
    return "an unknown exception";
  }
}

Duration longer(Duration backoff, Duration first, Duration last) {
  return std::clamp(backoff * 2, first, last);
}

}  // namespace

void require_store_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  if (!name.empty() && name.size() <= kMaxStoreNameBytes && std::ranges::all_of(name, fits)) return;
  throw Error(ErrorCode::invalid_argument,
              "the name of a store is 1 to 64 letters, digits, '-' and '_'");
}

MemberStore::MemberStore(std::string name, std::string server, std::unique_ptr<Store> store)
    : name_(std::move(name)), server_(std::move(server)), store_(std::move(store)) {}

class StoreSet::Impl {
 public:
  Impl(StoreDiscovery discovery, OpenStore open, const StoreSetOptions& options, Logger& logger,
       bool is_static)
      : discovery_(std::move(discovery)),
        open_(std::move(open)),
        options_(checked(options)),
        logger_(logger),
        is_static_(is_static) {}

  /// The first discovery, and from then on those of the thread.
  void start() {
    try {
      refresh();
    } catch (const std::exception&) {
      // It is in the log and in health, and comes again soon.
    }
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  RefreshResult refresh() {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = ++requested_;
    if (has_turn_) {
      lock.unlock();
      logger_.log(LogLevel::debug, "refresh asked for while one is under way", {});
      lock.lock();
    }
    turn_ended_.wait(lock, [&] { return refreshed_ >= mine || !has_turn_; });
    if (refreshed_ < mine) {
      const std::uint64_t all = requested_;  // who has asked by now is answered by this one
      has_turn_ = true;
      lock.unlock();
      std::optional<Error> failure;
      RefreshResult result;
      try {
        result = discover_and_open();
      } catch (const Error& error) {
        failure = error;
      } catch (...) {
        failure = Error(ErrorCode::unavailable, reason());
      }
      lock.lock();
      refreshed_ = all;
      last_result_ = std::move(result);
      last_failure_ = std::move(failure);
      end_turn();
    }
    if (last_failure_) throw Error(last_failure_->code(), last_failure_->what());
    return last_result_;
  }

  [[nodiscard]] MemberStorePtr find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find(name);
    if (found == members_.end()) {
      throw Error(ErrorCode::not_found, "there is no store of this name");
    }
    const Member& member = found->second;
    if (member.open) return member.open;
    throw Error(ErrorCode::unavailable,
                fmt::format("the store {} cannot be opened: {}", name, member.failure));
  }

  [[nodiscard]] std::vector<MemberStorePtr> members() const {
    const std::lock_guard lock(mutex_);
    std::vector<MemberStorePtr> open;
    for (const auto& [name, member] : members_) {
      if (member.open) open.push_back(member.open);
    }
    return open;
  }

  [[nodiscard]] std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    all.reserve(members_.size());
    for (const auto& [name, member] : members_) all.push_back(name);
    return all;
  }

  [[nodiscard]] std::vector<MemberState> states() const {
    const std::lock_guard lock(mutex_);
    std::vector<MemberState> all;
    all.reserve(members_.size());
    for (const auto& [name, member] : members_) {
      all.push_back({name, member.open, member.open ? std::string() : member.failure});
    }
    return all;
  }

  [[nodiscard]] std::uint64_t changes_of_names() const noexcept { return changes_of_names_; }

  [[nodiscard]] Health discovery_health() const {
    const std::lock_guard lock(mutex_);
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
      const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(listening_);
    for (const MemberStorePtr& member : members()) listener->on_opened(member);
    listeners_.push_back(listener);
  }

 private:
  struct Member {
    std::string url;
    MemberStorePtr open = {};
    std::string failure = "it was not tried yet";
    Duration backoff{};
    SteadyTime retry_at = SteadyTime::min();
  };

  void run(const std::stop_token& stop) {
    SteadyTime refresh_at = next_refresh();
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        const SteadyTime until = std::min(refresh_at, next_retry());
        turn_ended_.wait_until(lock, stop, until, [&] { return next_retry() < until; });
        if (stop.stop_requested()) return;
        if (SteadyClock::now() < std::min(refresh_at, next_retry())) continue;
      }
      if (SteadyClock::now() < refresh_at) {
        retry();
        continue;
      }
      try {
        refresh();
      } catch (const std::exception&) {
        // As above.
      }
      refresh_at = next_refresh();
    }
  }

  [[nodiscard]] SteadyTime next_refresh() const {
    if (is_static_) return SteadyTime::max();
    const std::lock_guard lock(mutex_);
    const Duration pause = discovery_backoff_ > Duration::zero()
                               ? std::min(discovery_backoff_, options_.refresh_interval)
                               : options_.refresh_interval;
    return SteadyClock::now() + pause;
  }

  [[nodiscard]] SteadyTime next_retry() const {
    SteadyTime earliest = SteadyTime::max();
    for (const auto& [name, member] : members_) {
      if (!member.open) earliest = std::min(earliest, member.retry_at);
    }
    return earliest;
  }

  void retry() {
    {
      std::unique_lock lock(mutex_);
      turn_ended_.wait(lock, [this] { return !has_turn_; });
      has_turn_ = true;
    }
    try {
      open(Which::due);
    } catch (const std::exception& failure) {
      logger_.log(LogLevel::warning, "stores that are down could not be tried again",
                  {{"reason", failure.what()}});
    }
    const std::lock_guard lock(mutex_);
    end_turn();
  }

  void end_turn() {
    has_turn_ = false;
    turn_ended_.notify_all();
  }

  // From here on for whoever has the turn --------------------------------------------------------

  RefreshResult discover_and_open() {
    std::map<std::string, std::string> wanted;
    try {
      std::vector<StoreLocation> all = options_.always;
      for (StoreLocation& found : discovery_()) all.push_back(std::move(found));
      wanted = by_name(std::move(all));
    } catch (...) {
      note_discovery(reason());
      open_always();
      throw;
    }
    note_discovery(std::nullopt);

    RefreshResult result;
    for (auto& [name, url] : wanted) adopt(name, std::move(url), result);
    for (const std::string& name : names()) {
      if (wanted.contains(name)) continue;
      let_go(name, Keep::nothing);
      result.removed.push_back(name);
      logger_.log(LogLevel::info, "store removed", {{"store", name}});
    }
    open(Which::all);

    const std::lock_guard lock(mutex_);
    for (const auto& [name, member] : members_) {
      if (!member.open) result.down.push_back(name);
    }
    return result;
  }

  void open_always() {
    RefreshResult ignored;
    for (const auto& [name, url] : by_name(options_.always)) adopt(name, url, ignored);
    open(Which::due);
  }

  void note_discovery(const std::optional<std::string>& failure) {
    {
      const std::lock_guard lock(mutex_);
      was_discovered_ = was_discovered_ || !failure;
      discovery_backoff_ =
          failure ? longer(discovery_backoff_, options_.first_retry, options_.max_retry)
                  : Duration::zero();
      discovery_health_ = {};
      if (failure) {
        discovery_health_ = {
            was_discovered_ ? HealthStatus::degraded : HealthStatus::unavailable,
            fmt::format("the last discovery failed, the set stays as it was: {}", *failure)};
      }
    }
    if (!failure) return;
    logger_.log(LogLevel::warning, "discovery failed, the stores stay as they are",
                {{"reason", *failure}});
  }

  /// Takes a store into the set, or notes that it is elsewhere now.
  void adopt(const std::string& name, std::string url, RefreshResult& result) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = members_.find(name);
      if (found == members_.end()) {
        members_.emplace(name, Member{.url = std::move(url)});
        ++changes_of_names_;
        result.added.push_back(name);
        return;
      }
      if (found->second.url == url) return;
    }
    // What is written from now on must not go to the old place.
    let_go(name, Keep::place);
    const std::lock_guard lock(mutex_);
    members_.at(name) = Member{.url = std::move(url)};
    result.reopened.push_back(name);
  }

  enum class Keep { nothing, place };

  void let_go(const std::string& name, Keep keep) {
    const std::lock_guard telling(listening_);
    MemberStorePtr gone;
    {
      const std::lock_guard lock(mutex_);
      const auto found = members_.find(name);
      gone = std::exchange(found->second.open, nullptr);
      if (keep == Keep::nothing) {
        members_.erase(found);
        ++changes_of_names_;
      }
    }
    if (!gone) return;
    tell([&](StoreSetListener& listener) { listener.on_removed(gone); });
  }

  enum class Which { all, due };

  /// Those that are not open. What was not tried before goes first: it need not wait for what
  /// hangs.
  void open(Which which) {
    std::vector<StoreLocation> closed;
    std::vector<StoreLocation> failed_before;
    {
      const std::lock_guard lock(mutex_);
      const SteadyTime now = SteadyClock::now();
      for (const auto& [name, member] : members_) {
        const bool is_wanted = which == Which::all || member.retry_at <= now;
        if (member.open || !is_wanted) continue;
        const bool is_new = member.backoff == Duration::zero();
        (is_new ? closed : failed_before).push_back({name, member.url});
      }
    }
    closed.insert(closed.end(), failed_before.begin(), failed_before.end());
    for_each_in_parallel(std::span(closed), options_.parallel_opens,
                         [this](const StoreLocation& location) { try_open(location); });
  }

  void try_open(const StoreLocation& location) {
    std::optional<std::string> failure;
    try {
      std::unique_ptr<Store> store = open_(location);
      if (!store) throw Error(ErrorCode::internal, "what opens stores gave none");
      const auto member = std::make_shared<MemberStore>(
          location.name, database_server(location.url), std::move(store));
      const std::lock_guard telling(listening_);
      {
        const std::lock_guard lock(mutex_);
        members_.at(location.name).open = member;
      }
      tell([&](StoreSetListener& listener) { listener.on_opened(member); });
    } catch (...) {
      failure = reason();
    }
    if (!failure) {
      logger_.log(LogLevel::info, "store opened", {{"store", location.name}});
      return;
    }
    Duration pause;
    {
      const std::lock_guard lock(mutex_);
      Member& member = members_.at(location.name);
      pause = member.backoff = longer(member.backoff, options_.first_retry, options_.max_retry);
      member.retry_at = SteadyClock::now() + pause;
      member.failure = *failure;
    }
    logger_.log(LogLevel::warning, "store cannot be opened, will be tried again",
                {{"store", location.name}, {"pause_ms", pause}, {"reason", *failure}});
  }

  template <class Call>
  void tell(Call call) {
    std::erase_if(listeners_, [](const auto& listener) { return listener.expired(); });
    for (const auto& known : listeners_) {
      if (const auto listener = known.lock()) call(*listener);
    }
  }

  const StoreDiscovery discovery_;
  const OpenStore open_;
  const StoreSetOptions options_;
  Logger& logger_;
  const bool is_static_;

  // Taken before the other one: what a listener hears is in the order in which it happens.
  std::mutex listening_;
  std::vector<std::weak_ptr<StoreSetListener>> listeners_;

  mutable std::mutex mutex_;
  std::map<std::string, Member, std::less<>> members_;
  std::atomic<std::uint64_t> changes_of_names_ = 0;
  Health discovery_health_;
  bool was_discovered_ = false;
  Duration discovery_backoff_{};

  // One refresh, or one round of retries, at a time.
  std::condition_variable_any turn_ended_;
  bool has_turn_ = false;
  std::uint64_t requested_ = 0;
  std::uint64_t refreshed_ = 0;
  RefreshResult last_result_;
  std::optional<Error> last_failure_;

  std::jthread thread_;  // last: it uses the members above
};

StoreSet::StoreSet(StoreDiscovery discovery, OpenStore open, const StoreSetOptions& options,
                   Logger& logger)
    : impl_(std::make_unique<Impl>(std::move(discovery), std::move(open), options, logger, false)) {
  impl_->start();
}

StoreSet::StoreSet(std::vector<StoreLocation> locations, OpenStore open,
                   const StoreSetOptions& options, Logger& logger) {
  static_cast<void>(by_name(locations));
  impl_ = std::make_unique<Impl>([locations = std::move(locations)] { return locations; },
                                 std::move(open), options, logger, true);
  impl_->start();
}

StoreSet::~StoreSet() = default;

RefreshResult StoreSet::refresh() { return impl_->refresh(); }

MemberStorePtr StoreSet::find(std::string_view name) const { return impl_->find(name); }

std::vector<MemberStorePtr> StoreSet::members() const { return impl_->members(); }

std::vector<std::string> StoreSet::names() const { return impl_->names(); }

std::vector<MemberState> StoreSet::states() const { return impl_->states(); }

std::uint64_t StoreSet::changes_of_names() const noexcept { return impl_->changes_of_names(); }

StoreSetHealth StoreSet::health() { return impl_->health(); }

Health StoreSet::discovery_health() const { return impl_->discovery_health(); }

void StoreSet::listen(const std::shared_ptr<StoreSetListener>& listener) {
  impl_->listen(listener);
}

}  // namespace oncebox
