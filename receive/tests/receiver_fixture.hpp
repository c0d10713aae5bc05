#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "dispatcher_fixture.hpp"
#include "oncebox/receive/idempotent_receiver.hpp"
#include "oncebox/testing/fault_injecting_key_store.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {

struct Order {
  std::string id = "order-1";
  int amount = 42;
};

/// Counts the calls that reach the keys of a store, and lets some of them fail.
class KeysProbe {
 public:
  explicit KeysProbe(IdempotencyStore& below)
      : faulty_(below, [this](std::string_view call) { return on_call(call); }) {}

  [[nodiscard]] IdempotencyStore& keys() { return faulty_; }
  /// The next so many calls of this name go wrong.
  void fail(const std::string& call, int times, testing::Fault how) {
    const std::lock_guard lock(mutex_);
    faults_[call] = {times, how};
  }
  /// Runs before each call of this name.
  void on(const std::string& call, std::function<void()> callback) {
    callbacks_[call] = std::move(callback);
  }
  /// The next one throws what is no `std::exception`.
  void fail_strangely(const std::string& call) {
    const std::lock_guard lock(mutex_);
    strange_ = call;
  }
  [[nodiscard]] int calls(const std::string& call) const {
    const auto counts = counts_.get();
    const auto found = counts.find(call);
    return found == counts.end() ? 0 : found->second;
  }
  [[nodiscard]] bool wait_for_calls(const std::string& call, int at_least) const {
    return counts_.wait([&](const auto& counts) {
      const auto found = counts.find(call);
      return found != counts.end() && found->second >= at_least;
    });
  }

 private:
  struct Faults {
    int left = 0;
    testing::Fault how = testing::Fault::none;
  };

  testing::Fault on_call(std::string_view call) {
    counts_.change([&](auto& counts) { ++counts[std::string(call)]; });
    if (const auto found = callbacks_.find(std::string(call)); found != callbacks_.end()) {
      found->second();
    }
    const std::lock_guard lock(mutex_);
    if (call == strange_) {
      strange_.clear();
      throw 42;
    }
    Faults& faults = faults_[std::string(call)];
    return faults.left > 0 ? (--faults.left, faults.how) : testing::Fault::none;
  }

  Watched<std::map<std::string, int>> counts_;
  std::map<std::string, std::function<void()>> callbacks_;
  std::mutex mutex_;
  std::map<std::string, Faults> faults_;
  std::string strange_;
  testing::FaultInjectingKeyStore faulty_;
};

/// Receivers of orders over each kind of store, whose handler answers "receipt N for ID".
class ReceiverOnEachStore : public OnEachStore {
 protected:
  using Receiver = IdempotentReceiver<Order, std::string>;

  [[nodiscard]] auto accept() {
    return [this](const Order& order) {
      return "receipt " + std::to_string(++handled_) + " for " + order.id;
    };
  }
  [[nodiscard]] Receiver::Builder builder() { return builder(accept()); }
  template <class Handler>
  [[nodiscard]] Receiver::Builder builder(Handler handler) {
    auto made = Receiver::over(probe_.keys(), std::move(handler));
    made.clock(clock_).log_to(logger_);
    return made;
  }
  [[nodiscard]] std::optional<KeyRecord> record(const std::string& key) {
    return store_->keys().find(IdempotencyKey(key));
  }
  [[nodiscard]] KeyStatus status(const std::string& key) { return record(key).value().status; }

  std::unique_ptr<Store> store_ = make_store();
  KeysProbe probe_{store_->keys()};
  RecordingLogger logger_;
  std::atomic<int> handled_ = 0;
  const Order order_;
  const Headers headers_{{"idempotencyKey", "accept-42"}};
  const Envelope<Order> message_{headers_, order_};
};

}  // namespace oncebox
