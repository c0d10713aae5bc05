#pragma once

#include <functional>
#include <string_view>

#include "oncebox/driver/forwarding_key_store.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"

namespace oncebox::testing {

/// Keys that fail when they are told to, and otherwise behave as those below, so that a program can
/// be tested against a store that comes and goes.
class FaultInjectingKeyStore final : public ForwardingKeyStore {
 public:
  /// Asked before each call, with the call's name ("begin", "complete" …); from any thread.
  using Plan = std::function<Fault(std::string_view call)>;

  /// The store is borrowed and must outlive this object.
  FaultInjectingKeyStore(IdempotencyStore& below, Plan plan);

 private:
  void forward(std::string_view name, const std::function<void()>& call) override;

  Plan plan_;
};

}  // namespace oncebox::testing
