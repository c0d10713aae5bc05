#include "oncebox/publish/publishing.hpp"

#include <chrono>
#include <utility>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "publishing_store.hpp"

namespace oncebox::publish {

namespace {

/// Of a worker, at the endpoints of a store.
constexpr Duration kLongestLook = std::chrono::seconds{2};

[[nodiscard]] DispatcherOptions named(DispatcherOptions options, const char* name) {
  if (options.name.empty()) options.name = name;
  return options;
}

}  // namespace

EndpointDirectory::Snapshot PublishingStore::endpoints(TimePoint now) {
  EndpointDirectory::Snapshot known;
  looks.make(kLongestLook, [&](const CallOptions& call) { known = directory.current(now, call); });
  return known;
}

DispatcherOptions for_deliveries(DispatcherOptions options) {
  options = named(std::move(options), "deliveries");
  if (!options.max_buffered) options.max_buffered = kUsualUnderWay;
  return options;
}

class Publishing::Impl {
 public:
  Impl(Store& store, EndpointPublishers publishers, const PublishingOptions& options,
       const Surroundings& around)
      : publishers_(std::move(publishers)),
        store_(std::make_shared<PublishingStore>("", store, nullptr, publishers_, around.clock)),
        parts_{[this](std::string_view) { return store_; }, options.on_disabled, around.logger,
               around.clock},
        fan_out_(store.outbox(), fan_out(parts_), named(options.fan_out, "outbox"), around),
        deliveries_(store.deliveries(), to_endpoints(parts_, options.around_deliveries),
                    for_deliveries(options.deliveries), around) {}

  void start() {
    deliveries_.start();
    fan_out_.start();
  }

  StopResult stop(const StopOptions& options) {
    const StopResult first = fan_out_.stop(options);
    const StopResult second = deliveries_.stop(options);
    return {first.still_running + second.still_running, first.unsettled + second.unsettled};
  }

  void wake() noexcept {
    fan_out_.wake();
    deliveries_.wake();
  }

  [[nodiscard]] PublishingStats stats() const { return {fan_out_.stats(), deliveries_.stats()}; }

 private:
  const EndpointPublishers publishers_;
  const std::shared_ptr<PublishingStore> store_;
  const PublishingParts parts_;
  Dispatcher fan_out_;
  OutboxDispatcher deliveries_;
};

Publishing::Publishing(Store& store, const EndpointPublishers& publishers,
                       const PublishingOptions& options, const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(store, publishers, options, surroundings)) {}

Publishing::Publishing(Store& store, const PublishingOptions& options,
                       const Surroundings& surroundings)
    : Publishing(store, standard_publishers({}, surroundings.clock), options, surroundings) {}

Publishing::~Publishing() = default;

void Publishing::start() { impl_->start(); }
StopResult Publishing::stop(const StopOptions& options) { return impl_->stop(options); }
void Publishing::wake() noexcept { impl_->wake(); }
PublishingStats Publishing::stats() const { return impl_->stats(); }

}  // namespace oncebox::publish
