#include "oncebox/testing/fault_injecting_queue_store.hpp"

#include <utility>

#include "oncebox/error.hpp"

namespace oncebox::testing {

void call_with_fault(Fault fault, const std::function<void()>& call) {
  if (fault == Fault::before) throw Error(ErrorCode::unavailable, "injected: store unavailable");
  call();
  if (fault == Fault::after) throw Error(ErrorCode::outcome_unknown, "injected: answer lost");
}

FaultInjectingQueueStore::FaultInjectingQueueStore(QueueStore& below, Plan plan)
    : ForwardingQueueStore(below), plan_(std::move(plan)) {}

void FaultInjectingQueueStore::forward(std::string_view name, const std::function<void()>& call) {
  call_with_fault(plan_(name), call);
}

}  // namespace oncebox::testing
