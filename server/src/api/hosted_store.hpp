#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/group_commit.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/log.hpp"
#include "oncebox/observed_queue_store.hpp"
#include "oncebox/server/server.hpp"

namespace oncebox::server {

class Metrics;

/// A store as the server serves it: with log and metrics around its queues, and with group commits
/// between many connections and its batches.
class HostedStore {
 public:
  HostedStore(const NamedStore& store, const ServerOptions& options, Logger& logger,
              Metrics& metrics, const Clock& clock);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Store& store() noexcept { return store_; }

  /// For single messages: they share commits.
  [[nodiscard]] Inbox& inbox() noexcept { return inbox_; }
  [[nodiscard]] ObservedQueueStore& outbox() noexcept { return outbox_; }

  using Begins = GroupCommit<BeginRequest, BeginOutcome>;
  using Completions = GroupCommit<CompleteRequest, CompleteOutcome>;
  [[nodiscard]] Begins& begins() noexcept { return begins_; }
  [[nodiscard]] Completions& completions() noexcept { return completions_; }

 private:
  const std::string name_;
  Store& store_;
  Inbox inbox_;
  ObservedQueueStore outbox_;
  Begins begins_;
  Completions completions_;
};

/// All of them, by name.
class HostedStores {
 public:
  /// Throws `invalid_argument` for no store, a bad name, or one that is there twice.
  HostedStores(const std::vector<NamedStore>& stores, const ServerOptions& options, Logger& logger,
               Metrics& metrics, const Clock& clock);

  [[nodiscard]] HostedStore& default_store() noexcept { return *stores_.front(); }
  /// Throws `not_found`. An empty name means the default.
  [[nodiscard]] HostedStore& find(std::string_view name);

  [[nodiscard]] auto begin() const noexcept { return stores_.begin(); }
  [[nodiscard]] auto end() const noexcept { return stores_.end(); }

 private:
  std::vector<std::unique_ptr<HostedStore>> stores_;
};

}  // namespace oncebox::server
