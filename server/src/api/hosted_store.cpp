#include "api/hosted_store.hpp"

#include <span>
#include <utility>

namespace oncebox::server {

HostedStore::HostedStore(MemberStorePtr store, const ServerOptions& options, Logger& logger,
                         Metrics& metrics, const Clock& clock)
    : member_(std::move(store)),
      metrics_(metrics.of_store(member_->name())),
      inbox_(member_->store(), {.name = name(), .enqueue = options.enqueue}, logger,
             metrics_->inbox(), clock),
      outbox_(member_->store().outbox(), name() + "/outbox", logger, metrics_->outbox(), clock),
      begins_([this](std::span<const BeginRequest> batch) {
        return member_->store().keys().begin(batch);
      }),
      completions_([this](std::span<const CompleteRequest> batch) {
        return member_->store().keys().complete(batch);
      }) {}

}  // namespace oncebox::server
