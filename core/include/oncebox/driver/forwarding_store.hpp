#pragma once

#include <memory>
#include <utility>

#include "oncebox/store.hpp"

namespace oncebox {

/// A store that does what another does, for those who change a part of it: override that part.
class ForwardingStore : public Store {
 public:
  /// Borrows the other one, which must outlive this.
  explicit ForwardingStore(Store& below) : below_(below) {}
  /// Owns it.
  explicit ForwardingStore(std::unique_ptr<Store> below)
      : owned_(std::move(below)), below_(*owned_) {}

  [[nodiscard]] QueueStore& inbox() override { return below_.inbox(); }
  [[nodiscard]] QueueStore& outbox() override { return below_.outbox(); }
  [[nodiscard]] QueueStore& deliveries() override { return below_.deliveries(); }
  [[nodiscard]] IdempotencyStore& keys() override { return below_.keys(); }
  [[nodiscard]] QueueOperator& inbox_operator() override { return below_.inbox_operator(); }
  [[nodiscard]] QueueOperator& outbox_operator() override { return below_.outbox_operator(); }
  [[nodiscard]] QueueOperator& deliveries_operator() override {
    return below_.deliveries_operator();
  }
  [[nodiscard]] PolicyStore& policies() override { return below_.policies(); }
  [[nodiscard]] EndpointStore& endpoints() override { return below_.endpoints(); }
  [[nodiscard]] AuditTrail& audit() override { return below_.audit(); }
  [[nodiscard]] Capabilities capabilities() const override { return below_.capabilities(); }
  MigrationResult migrate() override { return below_.migrate(); }
  [[nodiscard]] Health health() noexcept override { return below_.health(); }

 protected:
  [[nodiscard]] Store& below() const noexcept { return below_; }

 private:
  const std::unique_ptr<Store> owned_;  ///< null: it is borrowed
  Store& below_;
};

}  // namespace oncebox
