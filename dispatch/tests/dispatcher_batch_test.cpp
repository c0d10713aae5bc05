// Handlers of several messages in one call.

#include <algorithm>
#include <numeric>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"
#include "oncebox/dispatch/dispatch_pending.hpp"
#include "set_dispatcher_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::seconds;
using Sizes = std::vector<std::size_t>;

class DispatcherBatchTest : public DispatcherTest {
 protected:
  /// Notes how large the batches are.
  void note_sizes(const BatchOptions& options = {}) {
    handlers_.on_batch(
        "*",
        [this](std::span<BatchMessage> batch) {
          sizes_.change([&](Sizes& sizes) { sizes.push_back(batch.size()); });
        },
        options);
  }
  DispatchedPending dispatch() {
    return dispatch_pending(queue(), handlers_, 100, {}, {logger_, *observer_, clock_});
  }
  [[nodiscard]] std::size_t messages() const {
    const Sizes sizes = sizes_.get();
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  }

  Watched<Sizes> sizes_;
};

TEST_F(DispatcherBatchTest, WhatWaitsIsHandledTogetherUpToTheSizeOfABatch) {
  note_sizes({.max_messages = 4});
  enqueue_many(10);
  EXPECT_EQ(dispatch().handled, 10U);
  EXPECT_EQ(sizes_.get(), (Sizes{4, 4, 2}));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(record("m" + std::to_string(i)).status, Status::done);
}

TEST_F(DispatcherBatchTest, EachMessageHasAVerdictOfItsOwn) {
  handlers_.on_batch("*", [](std::span<BatchMessage> batch) {
    EXPECT_EQ(batch.size(), 5U);
    for (BatchMessage& message : batch) {
      const MessageId& id = message.message().message.key.message_id;
      if (id == "m1") message.failed(PermanentFailure("no such row"));
      if (id == "m2") message.failed(RetryAfter(seconds{9}, "locked"));
      if (id == "m3") message.failed(NotNow(seconds{9}, "busy"));
      if (id == "m4") message.done();
    }
  });
  enqueue_many(5);
  const DispatchedPending result = dispatch();
  EXPECT_EQ(result.handled, 2U);
  EXPECT_EQ(result.dead, 1U);
  EXPECT_EQ(result.retried, 1U);
  EXPECT_EQ(result.released, 1U);
  EXPECT_EQ(record("m1").history.last_error, "no such row");
  EXPECT_EQ(record("m2").eligible_at, clock_.now() + seconds{9});
  EXPECT_EQ(record("m3").history.attempt, 0);
}

TEST_F(DispatcherBatchTest, WhatIsThrownIsTheFailureOfThoseThatAreNotDecided) {
  handlers_.on_batch("*", [](std::span<BatchMessage> batch) {
    batch[0].done();
    batch[1].failed(PermanentFailure("a bad row"));
    throw std::runtime_error("the connection broke");
  });
  enqueue_many(4);
  dispatch();
  EXPECT_EQ(record("m0").status, Status::done);
  EXPECT_EQ(record("m1").status, Status::dead);
  for (const char* id : {"m2", "m3"}) {
    EXPECT_EQ(record(id).history.last_error, "the connection broke");
    EXPECT_EQ(record(id).history.attempt, 1);
  }
}

TEST_F(DispatcherBatchTest, ABatchHasTheTopicsOfOneHandlerAndNoPartitionTwice) {
  handlers_.on("order.*", [](const ClaimedMessage&, HandlerContext&) {});
  note_sizes();
  for (const char* id : {"a", "b", "c"}) {
    Message next = message(id, "row.inserted");
    next.partition_key = "p";
    enqueue(next);
    enqueue(message(std::string("o") + id));
    enqueue(message(std::string("r") + id, "row.deleted"));
  }
  EXPECT_EQ(dispatch().handled, 9U);
  EXPECT_EQ(sizes_.get(), (Sizes{4, 1, 1}));
}

TEST_F(DispatcherBatchTest, NothingIsLostOrHandledTwiceByManyWorkers) {
  note_sizes({.max_messages = 7});
  const auto ending = start({.workers = 8, .batch_size = 50});
  for (int i = 0; i < 500; ++i) enqueue(message(std::to_string(i)));
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(messages(), 500U);
  EXPECT_EQ(dispatcher_->stats().handled, 500U);
  EXPECT_LE(std::ranges::max(sizes_.get()), 7U);
}

TEST_F(DispatcherBatchTest, ItsLimitCountsMessages) {
  note_sizes({.handler = {.max_concurrency = 3}});
  enqueue_many(9);
  const auto ending = start({.workers = 4});
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(messages(), 9U);
  EXPECT_LE(std::ranges::max(sizes_.get()), 3U);
}

TEST_F(DispatcherBatchTest, AStopInterruptsItAndReleasesWhatIsNotDecided) {
  Watched<bool> runs{false};
  handlers_.on_batch("*", [&](std::span<BatchMessage> batch) {
    batch[0].done();
    runs.change([](bool& value) { value = true; });
    const std::stop_token& stop = batch[0].context().stop_token();
    EXPECT_TRUE(eventually([&] { return stop.stop_requested(); }));
    throw std::runtime_error("interrupted");
  });
  enqueue_many(3);
  const auto ending = start({.workers = 1});
  ASSERT_TRUE(runs.wait_for(true));
  EXPECT_EQ(dispatcher_->stats().running, 3U);
  EXPECT_TRUE(
      dispatcher_->stop({.finish_within = Duration{0}, .interrupt_within = kPatience}).complete());
  EXPECT_EQ(record("m0").status, Status::done);
  for (const char* id : {"m1", "m2"}) {
    EXPECT_EQ(record(id).history.attempt, 0);
    EXPECT_FALSE(record(id).lease);
  }
}

TEST_F(DispatcherBatchTest, OptionsAreChecked) {
  const auto nothing = [](std::span<BatchMessage>) {};
  expect_error(ErrorCode::out_of_range,
               [&] { handlers_.on_batch("*", nothing, {.max_messages = 0}); });
  expect_error(ErrorCode::out_of_range,
               [&] { handlers_.on_batch("*", nothing, {.handler = {.max_concurrency = 0}}); });
  expect_error(ErrorCode::invalid_argument,
               [&] { handlers_.on_batch("*", std::shared_ptr<BatchHandler>()); });
  EXPECT_TRUE(handlers_.registrations().empty());
}

TEST_F(SetDispatcherTest, ABatchIsOfOneStore) {
  list({{"a", "1"}, {"b", "2"}});
  handlers_.on_batch("*", [this](std::span<BatchMessage> batch) {
    for (const BatchMessage& message : batch) {
      EXPECT_EQ(message.context().store(), batch.front().context().store());
      note(message.context().store());
    }
  });
  enqueue_many("a", 20);
  enqueue_many("b", 20);
  const auto ending = start();
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(handled().size(), 40U);
}

}  // namespace
}  // namespace oncebox
