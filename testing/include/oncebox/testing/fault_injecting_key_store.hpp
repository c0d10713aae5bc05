#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oncebox/idempotency_store.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"

namespace oncebox::testing {

/// Keys that fail when they are told to, and otherwise behave as those below, so that a program can
/// be tested against a store that comes and goes. A test that needs one call to be different
/// overrides it.
class FaultInjectingKeyStore : public IdempotencyStore {
 public:
  /// Asked before each call, with the call's name ("begin", "complete" …); from any thread.
  using Plan = std::function<Fault(std::string_view call)>;

  /// The store is borrowed and must outlive this object.
  FaultInjectingKeyStore(IdempotencyStore& below, Plan plan);

 private:
  std::vector<BeginOutcome> do_begin(std::span<const BeginRequest> requests) override;
  std::optional<BeginStatus> do_recognise(std::string_view key, FailedKeyPolicy on_failed) override;
  std::vector<CompleteOutcome> do_complete(std::span<const CompleteRequest> requests) override;
  std::vector<FailOutcome> do_fail(std::span<const FailRequest> requests) override;
  std::vector<ReleaseOutcome> do_release(std::span<const ReleaseRequest> requests) override;
  std::vector<KeyExtendOutcome> do_extend(std::span<const KeyExtension> extensions) override;
  std::vector<std::optional<KeyRecord>> do_find(std::span<const IdempotencyKey> keys) override;
  std::size_t do_cleanup(std::size_t limit) override;

  template <class Call>
  auto perhaps_failing(std::string_view name, Call call);

  IdempotencyStore& below_;
  Plan plan_;
};

}  // namespace oncebox::testing
