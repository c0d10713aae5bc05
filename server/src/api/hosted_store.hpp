#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "observe/metrics.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/driver/observed_queue_store.hpp"
#include "oncebox/fleet/store_set.hpp"
#include "oncebox/group_commit.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

/// A store as the server serves it: with log and metrics around its queues, and with group commits
/// between many connections and its batches. The store stays open as long as this lives.
class HostedStore {
 public:
  HostedStore(MemberStorePtr store, const ServerOptions& options, Logger& logger, Metrics& metrics,
              const Clock& clock);

  [[nodiscard]] const std::string& name() const noexcept { return member_->name(); }
  [[nodiscard]] Store& store() noexcept { return member_->store(); }
  /// What opened it, to tell it from another of the same name.
  [[nodiscard]] const MemberStorePtr& member() const noexcept { return member_; }
  [[nodiscard]] StoreMetrics& metrics() noexcept { return *metrics_; }

  /// For single messages: they share commits.
  [[nodiscard]] Inbox& inbox() noexcept { return inbox_; }
  [[nodiscard]] ObservedQueueStore& outbox() noexcept { return outbox_; }

  using Begins = GroupCommit<BeginRequest, BeginOutcome>;
  using Completions = GroupCommit<CompleteRequest, CompleteOutcome>;
  [[nodiscard]] Begins& begins() noexcept { return begins_; }
  [[nodiscard]] Completions& completions() noexcept { return completions_; }

 private:
  const MemberStorePtr member_;
  const std::shared_ptr<StoreMetrics> metrics_;
  Inbox inbox_;
  ObservedQueueStore outbox_;
  Begins begins_;
  Completions completions_;
};

using HostedStorePtr = std::shared_ptr<HostedStore>;

/// The store of this name; an empty one means the default. Throws `not_found`, and `unavailable`
/// while the store is down.
using FindHostedStore = std::function<HostedStorePtr(std::string_view name)>;

}  // namespace oncebox::server
