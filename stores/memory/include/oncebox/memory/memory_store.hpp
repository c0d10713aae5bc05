#pragma once

#include <cstddef>
#include <memory>

#include "oncebox/clock.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/store.hpp"

namespace oncebox::memory {

/// The bounds of a memory store. A call that would pass one throws `overloaded` and changes
/// nothing; but how an attempt ended is always recorded.
struct Options {
  std::size_t max_messages = 10'000'000;         ///< in each queue, whatever their state
  std::size_t max_bytes = std::size_t{4} << 30;  ///< names, contents, attempts of a queue
  std::size_t max_keys = 10'000'000;
  std::size_t max_key_bytes = std::size_t{1} << 30;  ///< of idempotency keys and their results
  std::size_t max_payload_bytes = std::size_t{256} << 20;
  std::size_t max_audit_entries = 1'000'000;
  std::size_t kept_attempts = defaults::kKeptAttempts;  ///< of each message, the last ones
};

/// A store in the memory of this process: for tests, for tools, and wherever losing everything with
/// the process is acceptable. Everything else holds as on any store: claims cost O(log n), and
/// nothing grows with what is done but memory.
class MemoryStore final : public Store {
 public:
  /// The clock is borrowed and must outlive the store. Throws `out_of_range` unless `kept_attempts`
  /// is from 1 to `limits::kMaxKeptAttempts`.
  explicit MemoryStore(const Clock& clock, const Options& options = {});
  /// Runs on the machine's clock.
  explicit MemoryStore(const Options& options = {});
  ~MemoryStore() override;

  [[nodiscard]] QueueStore& inbox() override;
  [[nodiscard]] QueueStore& outbox() override;
  [[nodiscard]] QueueStore& deliveries() override;
  [[nodiscard]] IdempotencyStore& keys() override;
  [[nodiscard]] QueueOperator& inbox_operator() override;
  [[nodiscard]] QueueOperator& outbox_operator() override;
  [[nodiscard]] QueueOperator& deliveries_operator() override;
  [[nodiscard]] PolicyStore& policies() override;
  [[nodiscard]] EndpointStore& endpoints() override;
  [[nodiscard]] AuditTrail& audit() override;
  [[nodiscard]] Capabilities capabilities() const override;
  MigrationResult migrate() override;
  [[nodiscard]] Health health() noexcept override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::memory
