#pragma once

#include "api/ready_stores.hpp"
#include "api/served_stores.hpp"
#include "oncebox/publish/publishing.hpp"
#include "webhooks/notice_sender.hpp"

namespace oncebox::server {

/// Sets the configured endpoints of a store, and says so in its audit trail. Leaves one alone that
/// is as it should be.
void set_configured_endpoints(Store& store, std::string_view name, const PublishOptions& options);

/// Publishes the outboxes of the stores that the server serves.
class PublishService {
 public:
  /// Everything is borrowed. `notices` hears of endpoints that are disabled.
  PublishService(const ApiParts& parts, NoticeSender& notices);

  // The stores to publish. Each is published once it is ready: before its configured endpoints are
  // set, a message of the outbox would be done without them.

  void on_opened(const ServedStorePtr& store) { stores_.on_opened(held(store)); }
  void on_ready(const ServedStorePtr& store) noexcept { stores_.on_ready(held(store)); }
  void on_removed(const ServedStorePtr& store) noexcept { stores_.on_removed(held(store)); }

  void start() { publishing_.start(); }
  /// Nothing more is begun. Does not wait for what is under way.
  void drain() { publishing_.drain(); }
  /// Deliveries under way may end within the time; the others come again.
  void stop(Duration within) { publishing_.stop({.finish_within = within}); }
  [[nodiscard]] publish::PublishingStats stats() const { return publishing_.stats(); }

 private:
  /// The store, held together with what is kept beside it: its metrics.
  [[nodiscard]] static MemberStorePtr held(const ServedStorePtr& store) noexcept {
    return {store, store->member().get()};
  }

  ReadyStores stores_;
  publish::SetPublishing publishing_;
};

}  // namespace oncebox::server
