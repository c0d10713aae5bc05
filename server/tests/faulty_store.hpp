#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "forwarding_operator.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"

namespace oncebox::server {

/// A memory store of which one queue fails, or is held up, when it is told to, and that is as
/// healthy as it is told.
class FaultyStore final : public ForwardingStore {
 public:
  FaultyStore(const Clock& clock, testing::FaultInjectingQueueStore::Plan plan,
              QueueKind faulty = QueueKind::inbox)
      : ForwardingStore(std::make_unique<memory::MemoryStore>(clock)),
        is_inbox_(faulty == QueueKind::inbox),
        queue_(is_inbox_ ? below().inbox() : below().outbox(), std::move(plan)) {}

  void set_health(HealthStatus status) { health_ = status; }

  [[nodiscard]] QueueStore& inbox() override {
    return is_inbox_ ? static_cast<QueueStore&>(queue_) : below().inbox();
  }
  [[nodiscard]] QueueStore& outbox() override {
    return is_inbox_ ? below().outbox() : static_cast<QueueStore&>(queue_);
  }
  [[nodiscard]] Health health() noexcept override {
    const HealthStatus status = health_;
    return {.status = status, .detail = status == HealthStatus::healthy ? "" : "told so"};
  }

 private:
  const bool is_inbox_;
  testing::FaultInjectingQueueStore queue_;
  std::atomic<HealthStatus> health_ = HealthStatus::healthy;
};

/// A memory store in whose inbox something happens once a list has been read.
class RacingStore final : public ForwardingStore {
 public:
  RacingStore(const Clock& clock, const std::function<void(Store& below)>& race)
      : ForwardingStore(std::make_unique<memory::MemoryStore>(clock)),
        racing_(below().inbox_operator(), [this, race] { race(below()); }) {}

  [[nodiscard]] QueueOperator& inbox_operator() override { return racing_; }

 private:
  RacingOperator racing_;
};

/// The operator's side of a queue that calls something before it lists or counts.
class HeldOperator final : public ForwardingOperator {
 public:
  HeldOperator(QueueOperator& below, std::function<void()> before)
      : ForwardingOperator(below), before_(std::move(before)) {}

 private:
  MessagePage do_list(const ListRequest& request) override {
    before_();
    return ForwardingOperator::do_list(request);
  }
  std::size_t do_count(const MessageFilter& filter) override {
    before_();
    return ForwardingOperator::do_count(filter);
  }

  const std::function<void()> before_;
};

/// A store in whose inbox nothing is found, listed or counted until it is let go: whoever looks
/// waits.
class StuckStore {
 public:
  explicit StuckStore(const Clock& clock)
      : faulty_(clock,
                [this](std::string_view call) {
                  if (call == "find") hold();
                  return testing::Fault::none;
                }),
        store_(faulty_, [this] { hold(); }) {}

  [[nodiscard]] Store& store() noexcept { return store_; }
  void wait_for_first_look() const { first_came_.wait(); }
  void let_go() { open_.set_value(); }
  [[nodiscard]] int looks() const noexcept { return looks_; }

 private:
  class WithHeldOperator final : public ForwardingStore {
   public:
    WithHeldOperator(Store& below, std::function<void()> before)
        : ForwardingStore(below), operator_(below.inbox_operator(), std::move(before)) {}
    [[nodiscard]] QueueOperator& inbox_operator() override { return operator_; }

   private:
    HeldOperator operator_;
  };

  void hold() {
    if (looks_++ == 0) first_.set_value();
    opened_.wait();
  }

  std::promise<void> first_;
  const std::shared_future<void> first_came_ = first_.get_future().share();
  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
  std::atomic<int> looks_ = 0;
  FaultyStore faulty_;
  WithHeldOperator store_;
};

/// A memory store that does not tell how it is until it is let go.
class SilentStore final : public ForwardingStore {
 public:
  explicit SilentStore(const Clock& clock)
      : ForwardingStore(std::make_unique<memory::MemoryStore>(clock)) {}

  [[nodiscard]] Health health() noexcept override {
    opened_.wait();
    return {};
  }
  void let_go() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  const std::shared_future<void> opened_ = promise_.get_future().share();
};

/// A memory store that calls something before its rules for topics are read or changed.
class FaultyRulesStore final : public ForwardingStore {
 public:
  FaultyRulesStore(const Clock& clock, std::function<void()> before)
      : ForwardingStore(std::make_unique<memory::MemoryStore>(clock)),
        policies_(below().policies(), std::move(before)) {}

  [[nodiscard]] PolicyStore& policies() override { return policies_; }
  [[nodiscard]] std::size_t rules() {
    return below().policies().policies(QueueKind::inbox).rules().size();
  }

 private:
  class Policies final : public PolicyStore {
   public:
    Policies(PolicyStore& below, std::function<void()> before)
        : below_(below), before_(std::move(before)) {}

   private:
    std::vector<TopicRule> do_rules(QueueKind queue) override {
      before_();
      return below_.policies(queue).rules();
    }
    TopicPolicy do_update(QueueKind queue, const TopicPattern& pattern,
                          const TopicPolicyChange& change, const PolicyOptions& options) override {
      before_();
      return below_.update(queue, pattern, change, options);
    }
    bool do_remove(QueueKind queue, const TopicPattern& pattern,
                   const PolicyOptions& options) override {
      before_();
      return below_.remove(queue, pattern, options);
    }

    PolicyStore& below_;
    const std::function<void()> before_;
  };

  Policies policies_;
};

}  // namespace oncebox::server
