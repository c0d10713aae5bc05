#pragma once

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
  PublishService(const ApiParts& parts, StoreSet& stores);

  void start() { publishing_.start(); }
  /// Deliveries under way may end within the time; the others come again.
  void stop(Duration within) { publishing_.stop({.finish_within = within}); }

 private:
  publish::SetPublishing publishing_;
};

}  // namespace oncebox::server
