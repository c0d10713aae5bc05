#include <algorithm>
#include <map>
#include <utility>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/fleet/set_follower.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/publish/publishing.hpp"
#include "publishing_store.hpp"

namespace oncebox::publish {

namespace {

/// A delivery of a store that is just going comes back after it, to whoever has the store then.
constexpr Duration kPauseOfGoing = std::chrono::seconds{1};

[[nodiscard]] SetDispatcherOptions options_for(QueueKind queue, DispatcherOptions options) {
  SetDispatcherOptions of_set{.queue = queue};
  if (!options.max_buffered) options.max_buffered = of_set.dispatcher.max_buffered;
  of_set.dispatcher = std::move(options);
  return of_set;
}

/// The stores of a set as they come and go.
class PublishingStores {
 public:
  PublishingStores(const EndpointPublishers& publishers, Logger& logger, const Clock& clock)
      : publishers_(publishers), logger_(logger), clock_(clock) {}

  void on_opened(const MemberStorePtr& member) noexcept try {
    auto store = std::make_shared<PublishingStore>(member->name(), member->store(), member,
                                                   publishers_, clock_);
    const detail::Lock lock(mutex_);
    stores_.insert_or_assign(member->name(), std::move(store));
  } catch (const std::exception& failure) {
    logger_.log(LogLevel::error, "the outbox of a store is not published until it is opened again",
                {{"store", member->name()}, {"reason", failure.what()}});
  }

  void on_removed(const MemberStorePtr& member) noexcept {
    std::shared_ptr<PublishingStore> gone;  // let go without the lock
    const detail::Lock lock(mutex_);
    const auto found = stores_.find(member->name());
    if (found == stores_.end() || found->second->keep_alive != member) return;
    gone = std::move(found->second);
    stores_.erase(found);
  }

  [[nodiscard]] std::shared_ptr<PublishingStore> find(std::string_view name) const {
    const detail::Lock lock(mutex_);
    const auto found = stores_.find(name);
    if (found == stores_.end()) throw NotNow(kPauseOfGoing, "the store is not open here");
    return found->second;
  }

 private:
  const EndpointPublishers& publishers_;
  Logger& logger_;
  const Clock& clock_;
  mutable detail::Mutex mutex_;
  std::map<std::string, std::shared_ptr<PublishingStore>, std::less<>> stores_
      ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace

class SetPublishing::Impl {
 public:
  Impl(StoreSource& stores, EndpointPublishers publishers, const PublishingOptions& options,
       const SurroundingsOfQueues& around)
      : publishers_(std::move(publishers)),
        stores_(std::make_unique<PublishingStores>(publishers_, around.logger, around.clock)),
        parts_{[this](std::string_view name) { return stores_->find(name); }, options.on_disabled,
               around.logger, around.clock},
        fan_out_(stores, fan_out(parts_), nullptr, options_for(QueueKind::outbox, options.fan_out),
                 around.of(QueueKind::outbox)),
        deliveries_(stores, to_endpoints(parts_, options.around_deliveries).handlers(), nullptr,
                    options_for(QueueKind::deliveries, for_deliveries(options.deliveries)),
                    around.of(QueueKind::deliveries)),
        follower_(std::make_shared<SetFollower>(SetFollower::Calls{
            [this](const MemberStorePtr& member) { stores_->on_opened(member); },
            [this](const MemberStorePtr& member) { stores_->on_removed(member); }})),
        set_(stores) {}

  ~Impl() { follower_->close(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start() {
    set_.listen(follower_);  // before the dispatchers hear of the stores
    deliveries_.start();
    fan_out_.start();
  }

  void drain() {
    fan_out_.pause();
    deliveries_.pause();
  }

  StopResult stop(const StopOptions& options) {
    drain();
    const SteadyTime finish_at =
        parts_.clock.steady() +
        std::clamp(options.finish_within, Duration::zero(), limits::kMaxDelay);
    const StopResult first = fan_out_.stop(options);
    StopOptions rest = options;
    rest.finish_within = std::max(
        std::chrono::duration_cast<Duration>(finish_at - parts_.clock.steady()), Duration::zero());
    const StopResult second = deliveries_.stop(rest);
    return {first.still_running + second.still_running, first.unsettled + second.unsettled};
  }

  void wake() noexcept {
    fan_out_.wake();
    deliveries_.wake();
  }

  [[nodiscard]] PublishingStats stats() const { return {fan_out_.stats(), deliveries_.stats()}; }

 private:
  const EndpointPublishers publishers_;
  const std::unique_ptr<PublishingStores> stores_;
  const PublishingParts parts_;
  SetDispatcher fan_out_;
  SetDispatcher deliveries_;
  const std::shared_ptr<SetFollower> follower_;
  StoreSource& set_;
};

SetPublishing::SetPublishing(StoreSource& stores, const EndpointPublishers& publishers,
                             const PublishingOptions& options,
                             const SurroundingsOfQueues& surroundings)
    : impl_(std::make_unique<Impl>(stores, publishers, options, surroundings)) {}

SetPublishing::~SetPublishing() = default;

void SetPublishing::start() { impl_->start(); }
void SetPublishing::drain() { impl_->drain(); }
StopResult SetPublishing::stop(const StopOptions& options) { return impl_->stop(options); }
void SetPublishing::wake() noexcept { impl_->wake(); }
PublishingStats SetPublishing::stats() const { return impl_->stats(); }

}  // namespace oncebox::publish
