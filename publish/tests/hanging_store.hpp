#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/driver/call_scope.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/endpoint_store.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"
#include "watched.hpp"

namespace oncebox::publish {

/// A store in memory that hangs when a test wants it, as a database that does not answer: a call
/// ends with its limits. Nobody waits for a deadline: it passes at once. Or a store that is slow
/// when a test wants it.
class HangingStore final : public ForwardingStore {
 public:
  enum class Hangs { never, at_endpoints, at_notes, at_storing_deliveries };

  explicit HangingStore(const Clock& clock)
      : ForwardingStore(std::make_unique<memory::MemoryStore>(clock)) {}

  [[nodiscard]] EndpointStore& endpoints() override { return endpoints_; }
  [[nodiscard]] QueueStore& deliveries() override { return deliveries_; }

  void hang(Hangs where) { hangs_ = where; }
  /// Calls that have hung.
  [[nodiscard]] int hung() const { return hung_.get(); }
  [[nodiscard]] bool wait_for_hung(int count) const {
    return hung_.wait([&](int calls) { return calls >= count; });
  }

  /// From now on calls there wait until they are let go, and then succeed.
  void hold(Hangs where) { holds_ = where; }
  void let_go(int calls) {
    let_go_.change([&](int& all) { all += calls; });
  }
  /// Calls that have waited so.
  [[nodiscard]] int held() const { return held_.get(); }
  [[nodiscard]] bool wait_for_held(int count) const {
    return held_.wait([&](int calls) { return calls >= count; });
  }

  /// Of the last call that stored deliveries and had a deadline: how long it might have taken.
  [[nodiscard]] SteadyTime::duration time_to_store() const { return time_to_store_.get(); }

 private:
  class Endpoints final : public EndpointStore {
   public:
    Endpoints(HangingStore& store, EndpointStore& below) : store_(store), below_(below) {}

   private:
    std::optional<EndpointList> do_list(std::optional<std::int64_t> known_version,
                                        EndpointSecrets secrets) override {
      store_.pass(Hangs::at_endpoints);
      return known_version ? below_.list_unless(*known_version, secrets) : below_.list(secrets);
    }
    EndpointSaved do_save(const Endpoint& endpoint, const EndpointOptions& options) override {
      store_.pass(Hangs::at_endpoints);
      return below_.save(endpoint, options);
    }
    bool do_remove(const EndpointName& name, const EndpointOptions& options) override {
      store_.pass(Hangs::at_endpoints);
      return below_.remove(name, options);
    }
    std::optional<EndpointNoted> do_note(const EndpointName& name,
                                         const EndpointEvent& event) override {
      store_.pass(Hangs::at_endpoints);
      store_.pass(Hangs::at_notes);
      return below_.note(name, event);
    }

    HangingStore& store_;
    EndpointStore& below_;
  };

  void pass(Hangs where) {
    if (holds_ == where) wait_for_its_turn();
    if (hangs_ != where) return;
    hung_.change([](int& calls) { ++calls; });
    const CallOptions& limits = CallScope::current();
    EXPECT_TRUE(limits.is_limited()) << "this call would hang for as long as the store does";
    if (!limits.deadline && limits.stop.stop_possible()) {
      EXPECT_TRUE(eventually([&] { return limits.stop.stop_requested(); }));
    }
    throw limits.error();
  }

  void wait_for_its_turn() {
    int turn = 0;
    held_.change([&](int& calls) { turn = ++calls; });
    EXPECT_TRUE(let_go_.wait([&](int calls) { return calls >= turn; })) << "nobody lets it go";
  }

  testing::Fault on_call(std::string_view call) {
    if (call != "enqueue") return testing::Fault::none;
    if (const auto deadline = CallScope::current().deadline) {
      const SteadyTime now = SystemClock::shared().steady();
      time_to_store_.change([&](SteadyTime::duration& time) { time = *deadline - now; });
    }
    pass(Hangs::at_storing_deliveries);
    return testing::Fault::none;
  }

  std::atomic<Hangs> hangs_ = Hangs::never;
  std::atomic<Hangs> holds_ = Hangs::never;
  Watched<int> hung_;
  Watched<int> held_;
  Watched<int> let_go_;
  Watched<SteadyTime::duration> time_to_store_;
  Endpoints endpoints_{*this, below().endpoints()};
  testing::FaultInjectingQueueStore deliveries_{
      below().deliveries(), [this](std::string_view call) { return on_call(call); }};
};

}  // namespace oncebox::publish
