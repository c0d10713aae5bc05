#pragma once

#include <atomic>
#include <utility>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"

namespace oncebox::server {

/// A memory store whose inbox fails, or is held up, when it is told to, and that is as healthy as
/// it is told.
class FaultyStore final : public Store {
 public:
  FaultyStore(const Clock& clock, testing::FaultInjectingQueueStore::Plan plan)
      : below_(clock), inbox_(below_.inbox(), std::move(plan)) {}

  void set_health(HealthStatus status) { health_ = status; }

  [[nodiscard]] QueueStore& inbox() override { return inbox_; }
  [[nodiscard]] QueueStore& outbox() override { return below_.outbox(); }
  [[nodiscard]] IdempotencyStore& keys() override { return below_.keys(); }
  [[nodiscard]] QueueOperator& inbox_operator() override { return below_.inbox_operator(); }
  [[nodiscard]] QueueOperator& outbox_operator() override { return below_.outbox_operator(); }
  [[nodiscard]] Capabilities capabilities() const override { return below_.capabilities(); }
  MigrationResult migrate() override { return below_.migrate(); }
  [[nodiscard]] Health health() noexcept override {
    const HealthStatus status = health_;
    return {.status = status, .detail = status == HealthStatus::healthy ? "" : "told so"};
  }

 private:
  memory::MemoryStore below_;
  testing::FaultInjectingQueueStore inbox_;
  std::atomic<HealthStatus> health_ = HealthStatus::healthy;
};

}  // namespace oncebox::server
