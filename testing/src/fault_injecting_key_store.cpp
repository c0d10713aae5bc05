#include "oncebox/testing/fault_injecting_key_store.hpp"

#include <utility>

namespace oncebox::testing {

FaultInjectingKeyStore::FaultInjectingKeyStore(IdempotencyStore& below, Plan plan)
    : ForwardingKeyStore(below), plan_(std::move(plan)) {}

void FaultInjectingKeyStore::forward(std::string_view name, const std::function<void()>& call) {
  call_with_fault(plan_(name), call);
}

}  // namespace oncebox::testing
