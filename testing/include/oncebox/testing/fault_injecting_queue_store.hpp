#pragma once

#include <functional>
#include <string_view>

#include "oncebox/driver/forwarding_queue_store.hpp"
#include "oncebox/error.hpp"

namespace oncebox::testing {

/// How a call goes wrong.
enum class Fault {
  none,    ///< it does not
  before,  ///< `unavailable`: the call never reached the store
  after,   ///< `outcome_unknown`: the store did it, but the answer was lost
};

/// A queue store that fails when it is told to, and otherwise behaves as the one below, so that a
/// program can be tested against a store that comes and goes.
class FaultInjectingQueueStore final : public ForwardingQueueStore {
 public:
  /// Asked before each call, with the call's name ("enqueue", "claim" …); from any thread.
  using Plan = std::function<Fault(std::string_view call)>;

  /// The store is borrowed and must outlive this object.
  FaultInjectingQueueStore(QueueStore& below, Plan plan);

 private:
  void forward(std::string_view name, const std::function<void()>& call) override;

  Plan plan_;
};

/// Makes the call, unless the fault comes before it. Throws what the fault says.
void call_with_fault(Fault fault, const std::function<void()>& call);

}  // namespace oncebox::testing
