// A dispatcher that waits offers to take what is enqueued.

#include <functional>
#include <future>
#include <mutex>
#include <new>
#include <thread>

#include "dispatcher_fixture.hpp"
#include "oncebox/driver/claim_offer.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

/// Hands new messages over to those who offer, as a store may. The memory store below does the
/// work.
class HandingOverQueue final : public ForwardingQueueStore {
 public:
  using ForwardingQueueStore::ForwardingQueueStore;

  /// Called between the taking of an offer and the commit, from the enqueuer's thread; may throw.
  void before_commit(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    before_commit_ = std::move(call);
  }
  /// When several enqueue at once, what another one has just stored may come along, or be claimed.
  void expect_company() { has_company_ = true; }
  /// As without memory.
  void refuse_offers() { refuses_offers_ = true; }
  [[nodiscard]] bool wait_for_offers(int at_least) const {
    return made_.wait([&](int made) { return made >= at_least; });
  }
  [[nodiscard]] int offers() const { return made_.get(); }
  [[nodiscard]] int handed_over() const { return handed_over_.get(); }
  [[nodiscard]] int claimed() const { return claimed_.get(); }

 private:
  std::vector<EnqueueOutcome> do_enqueue(std::span<const Message> messages,
                                         const EnqueueOptions& options) override {
    TakenOffer offer = offers_.take_for(messages);
    if (!offer) {
      std::vector<EnqueueOutcome> outcomes = below().enqueue(messages, options);
      listeners_.notify();
      return outcomes;
    }
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex_);
      call = before_commit_;
    }
    if (call) call();
    std::vector<EnqueueOutcome> outcomes = below().enqueue(messages, options);
    std::vector<ClaimedMessage> claimed = below().claim(offer.request());
    if (!has_company_) {
      EXPECT_EQ(claimed.size(), messages.size()) << "something else was ready";
    }
    handed_over_.change([&](int& count) { count += static_cast<int>(claimed.size()); });
    offer.answer(std::move(claimed));
    return outcomes;
  }
  ClaimResult do_claim(const ClaimRequest& request) override {
    ClaimResult claimed = below().claim(request);
    claimed_.change([&](int& count) { count += static_cast<int>(claimed.size()); });
    return claimed;
  }
  std::vector<SettleOutcome> do_settle(std::span<const Settlement> settlements) override {
    std::vector<SettleOutcome> outcomes = below().settle(settlements);
    for (const Settlement& settlement : settlements) {
      if (!std::holds_alternative<Ack>(settlement.verdict)) listeners_.notify();
    }
    return outcomes;
  }
  void do_listen(std::weak_ptr<WorkListener> listener) override {
    listeners_.add(std::move(listener));
  }
  void do_offer(const std::shared_ptr<ClaimOffer>& offer) override {
    if (refuses_offers_) {
      made_.change([](int& made) { ++made; });
      throw std::bad_alloc();
    }
    offers_.add(offer);
    made_.change([](int& made) { ++made; });
  }

  std::mutex mutex_;
  std::function<void()> before_commit_;
  bool has_company_ = false;
  bool refuses_offers_ = false;
  ClaimOffers offers_;
  WorkListeners listeners_;
  Watched<int> made_;
  Watched<int> handed_over_;
  Watched<int> claimed_;
};

/// Counts what it is told of claims and deliveries.
class CountingObserver final : public Observer {
 public:
  void on_claim(std::size_t messages, std::size_t /*limit*/) noexcept override {
    if (messages > 0) ++claims;
  }
  void on_delivery(const ClaimedMessage& /*claimed*/, Duration /*waited*/) noexcept override {
    ++deliveries;
  }
  std::atomic<int> claims = 0;
  std::atomic<int> deliveries = 0;
};

class DispatcherOfferTest : public DispatcherTest {
 protected:
  static DispatcherOptions no_polls() {
    return {.poll_interval = hours{1}, .max_poll_interval = hours{2}, .reap_interval = {}};
  }
  void note_calls() {
    handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext&) {
      handled_.change([&](auto& ids) { ids.push_back(claimed.message.key.message_id.str()); });
    });
  }
  Ending start_offering(const DispatcherOptions& options) {
    dispatcher_ = std::make_unique<Dispatcher>(offering_probe_.store(), handlers_, options,
                                               Surroundings{logger_, *observer_, clock_});
    dispatcher_->start();
    return Ending(*this);
  }
  [[nodiscard]] bool wait_for_handled(std::size_t count) {
    return handled_.wait([&](const auto& ids) { return ids.size() >= count; });
  }
  /// Enqueues on a thread that stands still between the taking of the offer and the commit.
  [[nodiscard]] std::jthread enqueue_slowly(const Message& message) {
    offering_.before_commit([this] {
      taken_.change([](bool& taken) { taken = true; });
      commit_.pass();
    });
    return std::jthread([this, message] { offering_.enqueue(message); });
  }

  HandingOverQueue offering_{queue()};
  StoreProbe offering_probe_{offering_};
  Watched<std::vector<std::string>> handled_;
  Watched<bool> taken_{false};
  Gate commit_;
};

TEST_F(DispatcherOfferTest, WhatIsHandedOverIsHandledWithoutAClaim) {
  RecordProperty("requirement", "MSG-02");
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  // A look in vain, for which it withdraws its offer, may come between any two.
  int sent = 0;
  while (offering_.handed_over() < 100 && sent < 100'000) {
    EXPECT_EQ(offering_.enqueue(message(std::to_string(++sent))).status, EnqueueStatus::accepted);
    ASSERT_TRUE(wait_for_handled(static_cast<std::size_t>(sent)));
    ASSERT_TRUE(offering_.wait_for_offers(sent + 1));
  }
  EXPECT_EQ(offering_.handed_over(), 100);
  EXPECT_EQ(offering_.claimed(), sent - 100);
  EXPECT_TRUE(wait_for_status(std::to_string(sent), Status::done));
  EXPECT_EQ(record(std::to_string(sent)).history.deliveries, 1);
}

TEST_F(DispatcherOfferTest, WithoutMemoryForAnOfferMessagesAreClaimed) {
  note_calls();
  offering_.refuse_offers();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  EXPECT_EQ(offering_.enqueue(message("m")).status, EnqueueStatus::accepted);
  EXPECT_TRUE(wait_for_handled(1));
  EXPECT_EQ(offering_.claimed(), 1);
  EXPECT_TRUE(wait_for_status("m", Status::done));
}

TEST_F(DispatcherOfferTest, TheEndOfALeaseThatWasHandedOverIsNotWaitedForByPolling) {
  note_calls();
  DispatcherOptions options = no_polls();
  options.lease = Duration{40};
  const auto ending = start_offering(options);
  ASSERT_TRUE(offering_.wait_for_offers(1));
  for (int i = 0; offering_.handed_over() == 0; ++i) offering_.enqueue(message(std::to_string(i)));
  const int claims = offering_probe_.calls("claim");
  EXPECT_TRUE(offering_probe_.wait_for_calls("claim", claims + 1));
}

TEST_F(DispatcherOfferTest, StatisticsCountWhatIsHandedOverAsAClaim) {
  RecordProperty("requirement", "MSG-09");
  CountingObserver counting;
  observer_ = &counting;
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  const RunningStats before = dispatcher_->stats();
  offering_.enqueue(std::vector{message("a"), message("b"), message("c")});
  ASSERT_TRUE(wait_for_handled(3));
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().handled == 3; }));
  const RunningStats after = dispatcher_->stats();
  // A worker that made room may have had it look once more, in vain.
  EXPECT_EQ(after.claims - after.empty_claims, before.claims - before.empty_claims + 1);
  EXPECT_EQ(after.claim_batch.max, 3U);
  EXPECT_EQ(after.delivery_latency_ms.count, 3U);
  EXPECT_EQ(counting.claims, 1);
  EXPECT_EQ(counting.deliveries, 3);
}

TEST_F(DispatcherOfferTest, OnlyWorkersThatHaveNothingToDoAreOffered) {
  RecordProperty("requirement", "MSG-02");
  handlers_.on("*", [this](const ClaimedMessage& claimed, HandlerContext&) {
    handled_.change([&](auto& ids) { ids.push_back(claimed.message.key.message_id.str()); });
    gate_.pass();
  });
  DispatcherOptions options = no_polls();
  options.workers = 2;
  const auto ending = start_offering(options);
  for (int i = 1; i <= 2; ++i) {
    ASSERT_TRUE(offering_.wait_for_offers(i));
    offering_.enqueue(message(std::to_string(i)));
    ASSERT_TRUE(wait_for_handled(static_cast<std::size_t>(i)));
  }
  const int handed_over = offering_.handed_over();
  offering_.enqueue(message("third"));
  EXPECT_EQ(offering_.handed_over(), handed_over) << "another process may begin with it sooner";
  const int offers = offering_.offers();
  gate_.open();
  ASSERT_TRUE(wait_for_handled(3));
  EXPECT_TRUE(offering_.wait_for_offers(offers + 1)) << "a worker is idle again";
}

TEST_F(DispatcherOfferTest, WhatWasAnnouncedSinceTheClaimIsHandedOutFirst) {
  RecordProperty("requirement", "R-17");
  note_calls();
  DispatcherOptions options = no_polls();
  options.workers = 1;
  const auto ending = start_offering(options);
  std::vector<std::string> sent;
  for (int i = 0; i < 300; ++i) {
    Message next = message("m" + std::to_string(i));
    if (i % 3 == 0) next.expires_at = kMaxTime;  // not for an offer
    sent.push_back(next.key.message_id.str());
    offering_.enqueue(next);
  }
  ASSERT_TRUE(wait_for_handled(300));
  EXPECT_EQ(handled_.get(), sent);
}

TEST_F(DispatcherOfferTest, EnqueueThatFailsLeavesTheOfferToOthers) {
  RecordProperty("requirement", "IBX-102");
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  offering_.before_commit([] { throw Error(ErrorCode::unavailable, "no server"); });
  EXPECT_THROW(offering_.enqueue(message("a")), Error);
  offering_.before_commit({});
  offering_.enqueue(message("b"));
  ASSERT_TRUE(wait_for_handled(1));
  EXPECT_EQ(offering_.handed_over(), 1);
  EXPECT_EQ(handled_.get(), std::vector<std::string>{"b"});
}

TEST_F(DispatcherOfferTest, EnqueueThatTakesLongHoldsUpNoClaim) {
  RecordProperty("requirement", "MSG-02");
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  {
    const auto slow = enqueue_slowly(message("slow"));
    ASSERT_TRUE(taken_.wait_for(true));
    queue().enqueue(message("other"));  // of another process
    dispatcher_->wake();
    EXPECT_TRUE(wait_for_handled(1));
    EXPECT_EQ(handled_.get().front(), "other");
    ASSERT_TRUE(wait_for_status("other", Status::done));
    commit_.open();
  }
  EXPECT_TRUE(wait_for_handled(2));
  EXPECT_TRUE(wait_for_status("slow", Status::done));
}

TEST_F(DispatcherOfferTest, OfferThatIsBeingAnsweredCountsAsBuffered) {
  RecordProperty("requirement", "MSG-02");
  note_calls();
  DispatcherOptions options = no_polls();
  options.batch_size = 1;
  options.max_buffered = 1;
  const auto ending = start_offering(options);
  ASSERT_TRUE(offering_.wait_for_offers(1));
  {
    const auto slow = enqueue_slowly(message("slow"));
    ASSERT_TRUE(taken_.wait_for(true));
    const int claims = offering_probe_.calls("claim");
    dispatcher_->wake();
    dispatcher_->wake();
    EXPECT_EQ(offering_probe_.calls("claim"), claims);
    commit_.open();
  }
  ASSERT_TRUE(wait_for_handled(1));
  queue().enqueue(message("other"));
  dispatcher_->wake();
  EXPECT_TRUE(wait_for_handled(2));
}

TEST_F(DispatcherOfferTest, WhatIsHandedOverWhileItIsPausedIsReleased) {
  RecordProperty("requirement", "MSG-02");
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  {
    const auto slow = enqueue_slowly(message("m"));
    ASSERT_TRUE(taken_.wait_for(true));
    dispatcher_->pause("order.*");
    commit_.open();
  }
  ASSERT_TRUE(eventually([&] { return dispatcher_->stats().released == 1; }));
  EXPECT_TRUE(handled_.get().empty());
  EXPECT_FALSE(record("m").lease);
  dispatcher_->resume("order.*");
  EXPECT_TRUE(wait_for_handled(1));
}

TEST_F(DispatcherOfferTest, PausedOneLeavesNoOffer) {
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  dispatcher_->pause();
  // It is withdrawn when the claim loop has woken: until then what is handed over is released.
  int number = 0;
  ASSERT_TRUE(eventually([&] {
    const int before = offering_.handed_over();
    offering_.enqueue(message(std::to_string(number++)));
    return offering_.handed_over() == before;
  }));
  EXPECT_TRUE(handled_.get().empty());
}

TEST_F(DispatcherOfferTest, TopicsWithLimitsAreClaimedForAndNotOffered) {
  RecordProperty("requirement", "MSG-02");
  handlers_.on(
      "order.*",
      [this](const ClaimedMessage& claimed, HandlerContext&) {
        handled_.change([&](auto& ids) { ids.push_back(claimed.message.key.message_id.str()); });
      },
      {.max_concurrency = 1});
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  offering_.enqueue(message("limited"));
  ASSERT_TRUE(wait_for_handled(1));
  EXPECT_EQ(offering_.handed_over(), 0);
}

TEST_F(DispatcherOfferTest, StopWaitsForAnOfferThatIsBeingAnsweredAsForAClaim) {
  RecordProperty("requirement", "MSG-02");
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  {
    const auto slow = enqueue_slowly(message("m"));
    ASSERT_TRUE(taken_.wait_for(true));
    const StopResult first = dispatcher_->stop(
        {.finish_within = Duration::zero(), .interrupt_within = Duration::zero()});
    EXPECT_EQ(first.unsettled, 1U);
    commit_.open();
    EXPECT_TRUE(dispatcher_->stop({.finish_within = seconds{60}}).complete());
  }
  EXPECT_TRUE(handled_.get().empty());
  EXPECT_FALSE(record("m").lease) << "it was released";
}

TEST_F(DispatcherOfferTest, StoppedOneLeavesNoOffer) {
  RecordProperty("requirement", "MSG-02");
  note_calls();
  const auto ending = start_offering(no_polls());
  ASSERT_TRUE(offering_.wait_for_offers(1));
  ASSERT_TRUE(dispatcher_->stop().complete());
  offering_.enqueue(message("a"));
  EXPECT_EQ(offering_.handed_over(), 0);
  dispatcher_.reset();
  offering_.enqueue(message("b"));
  EXPECT_EQ(offering_.handed_over(), 0);
  EXPECT_FALSE(record("b").lease);
}

TEST_F(DispatcherOfferTest, AMessageThatIsBeingHandedOverIsWaitedForBeforeItIsIdle) {
  note_calls();
  offering_.expect_company();  // a look may find it before the offer is answered
  const auto ending = start_offering(no_polls());
  std::jthread enqueuer;
  ASSERT_TRUE(offering_.wait_for_offers(1));
  enqueuer = enqueue_slowly(message("m"));
  ASSERT_TRUE(taken_.wait_for(true));
  auto waits = std::async(std::launch::async, [&] { return dispatcher_->wait_until_idle(); });
  ASSERT_TRUE(offering_probe_.wait_for_calls("claim", 3)) << "it has looked";
  commit_.open();
  EXPECT_TRUE(waits.get());
  EXPECT_EQ(handled_.get().size(), 1U);
}

TEST_F(DispatcherOfferTest, ManyEnqueuersAndStopsLoseNothing) {
  RecordProperty("requirement", "IBX-106,MSG-03");
  note_calls();
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  offering_.expect_company();
  const auto ending = start_offering(no_polls());
  {
    std::vector<std::jthread> enqueuers;
    for (int thread = 0; thread < kThreads; ++thread) {
      enqueuers.emplace_back([this, thread] {
        for (int i = 0; i < kEach; ++i) {
          offering_.enqueue(message(std::to_string(thread) + "-" + std::to_string(i)));
        }
      });
    }
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(wait_for_handled(static_cast<std::size_t>(100 * i)));
      dispatcher_ = std::make_unique<Dispatcher>(offering_probe_.store(), handlers_, no_polls(),
                                                 Surroundings{logger_, *observer_, clock_});
      dispatcher_->start();
    }
  }
  ASSERT_TRUE(wait_for_handled(std::size_t{kThreads} * kEach));
  ASSERT_TRUE(eventually([&] {
    return store_.inbox_operator().count({.statuses = {Status::done}}) ==
           std::size_t{kThreads} * kEach;
  }));
}

}  // namespace
}  // namespace oncebox
