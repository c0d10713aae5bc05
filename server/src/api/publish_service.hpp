#pragma once

#include "api/ready_stores.hpp"
#include "api/served_stores.hpp"
#include "oncebox/publish/publishing.hpp"

namespace oncebox::server {

/// Sets the configured endpoints of a store, and says so in its audit trail. Leaves one alone that
/// is as it should be.
void set_configured_endpoints(Store& store, std::string_view name, const PublishOptions& options);

/// Publishes the outboxes of the stores that the server serves.
class PublishService {
 public:
  /// Everything is borrowed.
  explicit PublishService(const ApiParts& parts);

  /// The stores to publish, as they become ready: before its configured endpoints are set, a
  /// message of the outbox would be done without them.
  [[nodiscard]] ReadyStores& stores() noexcept { return stores_; }

  void start() { publishing_.start(); }
  /// Nothing more is begun. Does not wait for what is under way.
  void drain() noexcept { publishing_.drain(); }
  /// Deliveries under way may end within the time; the others come again.
  void stop(Duration within) { publishing_.stop({.finish_within = within}); }

 private:
  ReadyStores stores_;
  publish::SetPublishing publishing_;
};

}  // namespace oncebox::server
