// What runs around handlers of batches, and around those that hold no thread.

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "completions.hpp"
#include "dispatcher_fixture.hpp"
#include "failing_allocations.hpp"
#include "oncebox/dispatch/dispatch_pending.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "set_dispatcher_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr StopOptions kSoon{.finish_within = Duration{0}, .interrupt_within = Duration{20}};
constexpr const char* kReleased = "the handler had not completed when the dispatcher stopped";

class DispatcherMiddlewareTest : public DispatcherTest {
 protected:
  using Noted = std::vector<std::string>;

  void note(const std::string& text) {
    notes_.change([&](Noted& all) { all.push_back(text); });
  }
  [[nodiscard]] std::string notes() const {
    std::string text;
    for (const std::string& each : notes_.get()) text += (text.empty() ? "" : ", ") + each;
    return text;
  }
  /// Handles what is pending now, on this thread.
  DispatchedPending dispatch() {
    return dispatch_pending(queue(), handlers_, 100, {}, {logger_, *observer_, clock_});
  }

  /// Notes what became of the message.
  AsyncEnd note_end(const std::string& name) {
    return [this, name](const std::exception_ptr& failure) {
      try {
        if (failure) std::rethrow_exception(failure);
        note(name + ": done");
      } catch (const std::exception& thrown) {
        note(name + ": " + thrown.what());
      }
    };
  }
  /// Notes the beginning, the return of the handler, and the end.
  AsyncMiddleware note_all(const std::string& name) {
    return [this, name](const ClaimedMessage& claimed, const HandlerContext& context,
                        const NextAsyncHandler& next) {
      EXPECT_EQ(&claimed, &context.message());
      note("<" + name);
      next(note_end(name));
      note(name + ">");
    };
  }
  void keep_completions() {
    handlers_.on_async("*", [this](const ClaimedMessage&, Completion completion) {
      note("handler");
      completions_.take(std::move(completion));
    });
  }
  void fail_if_handled() {
    handlers_.on_async(
        "*", [](const ClaimedMessage&, Completion) { ADD_FAILURE() << "the handler has begun"; });
  }
  [[nodiscard]] bool wait_for_notes(std::size_t count) const {
    return notes_.wait([&](const Noted& all) { return all.size() >= count; });
  }

  Watched<Noted> notes_;
  Completions completions_;
};

TEST_F(DispatcherMiddlewareTest, EachKindOfHandlerHasItsOwn) {
  handlers_.around([this](const ClaimedMessage& claimed, HandlerContext&, const NextHandler& next) {
    note("around " + claimed.message.topic.str());
    next();
  });
  handlers_.around_batch([this](std::span<BatchMessage> batch, const NextHandler& next) {
    note("around_batch " + batch[0].message().message.topic.str());
    next();
  });
  handlers_.around_async(
      [this](const ClaimedMessage& claimed, const HandlerContext&, const NextAsyncHandler& next) {
        note("around_async " + claimed.message.topic.str());
        next({});
      });
  handlers_.on("one", [](const ClaimedMessage&, HandlerContext&) {});
  handlers_.on("transaction", [](const ClaimedMessage&, Transaction&, HandlerContext&) {});
  handlers_.on_batch("batch", [](std::span<BatchMessage>) {});
  handlers_.on_async("async",
                     [](const ClaimedMessage&, Completion completion) { completion.done(); });
  for (const char* topic : {"one", "transaction", "batch", "async"}) {
    enqueue(message(topic, topic));
  }
  EXPECT_EQ(dispatch().handled, 4U);
  EXPECT_EQ(notes(), "around one, around transaction, around_batch batch, around_async async");
}

// Batches ---------------------------------------------------------------------------------------

TEST_F(DispatcherMiddlewareTest, AroundABatchItRunsOnceTheFirstOneOutermost) {
  const auto note_as = [this](const std::string& name) {
    return [this, name](std::span<BatchMessage> batch, const NextHandler& next) {
      note("<" + name + " " + std::to_string(batch.size()));
      next();
      note(name + ">");
    };
  };
  handlers_.around_batch(note_as("a"));
  handlers_.on_batch("*", [this](std::span<BatchMessage>) { note("handler"); });
  handlers_.around_batch(note_as("b"));
  enqueue_many(3);
  EXPECT_EQ(dispatch().handled, 3U);
  EXPECT_EQ(notes(), "<a 3, <b 3, handler, b>, a>");
}

TEST_F(DispatcherMiddlewareTest, WhatLeavesItDecidesAboutTheMessagesOfABatchThatAreNotDecided) {
  handlers_.on_batch("*", [](std::span<BatchMessage> batch) {
    batch[0].done();
    batch[1].failed(PermanentFailure("a bad row"));
  });
  handlers_.around_batch([](std::span<BatchMessage>, const NextHandler& next) {
    next();
    throw std::runtime_error("no answer");
  });
  enqueue_many(3);
  dispatch();
  EXPECT_EQ(record("m0").status, Status::done);
  EXPECT_EQ(record("m1").history.last_error, "a bad row");
  EXPECT_EQ(record("m2").history.last_error, "no answer");
}

TEST_F(DispatcherMiddlewareTest, ATransactionAroundABatchFailsAllOfItWhenItRollsBack) {
  bool commits = false;
  handlers_.around_batch([&](std::span<BatchMessage> batch, const NextHandler& next) {
    try {
      next();
      if (!commits) throw std::runtime_error("the commit failed");
    } catch (...) {
      for (BatchMessage& each : batch) each.failed(std::current_exception());
    }
  });
  handlers_.on_batch("*", [](std::span<BatchMessage> batch) { batch[0].done(); });
  enqueue_many(2);
  EXPECT_EQ(dispatch().retried, 2U);
  EXPECT_EQ(record("m0").history.last_error, "the commit failed");
  commits = true;
  clock_.advance(hours{1});
  EXPECT_EQ(dispatch().handled, 2U);
}

TEST_F(DispatcherMiddlewareTest, WhatAHandlerOfBatchesThrowsComesOutOfNext) {
  handlers_.on_batch("*",
                     [](std::span<BatchMessage>) { throw std::runtime_error("no connection"); });
  handlers_.around_batch([this](std::span<BatchMessage>, const NextHandler& next) {
    try {
      next();
    } catch (const std::exception& thrown) {
      note(thrown.what());
    }
  });
  enqueue_many(2);
  EXPECT_EQ(dispatch().handled, 2U) << "the middleware swallowed it";
  EXPECT_EQ(notes(), "no connection");
}

TEST_F(DispatcherMiddlewareTest, WithoutACallOfNextABatchIsDone) {
  handlers_.on_batch("*",
                     [](std::span<BatchMessage>) { ADD_FAILURE() << "the handler was called"; });
  handlers_.around_batch([](std::span<BatchMessage>, const NextHandler&) {});
  enqueue_many(2);
  EXPECT_EQ(dispatch().handled, 2U);
}

// Handlers without a thread ---------------------------------------------------------------------

TEST_F(DispatcherMiddlewareTest, TheFirstOneIsOutermostAndHearsOfTheEndLast) {
  handlers_.around_async(note_all("a"));
  keep_completions();
  handlers_.around_async(note_all("b"));
  enqueue_many(1);
  const auto ending = start();
  ASSERT_TRUE(completions_.wait_for(1));
  ASSERT_TRUE(wait_for_notes(5));
  EXPECT_EQ(notes(), "<a, <b, handler, b>, a>");
  completions_.next().done();
  EXPECT_EQ(notes(), "<a, <b, handler, b>, a>, b: done, a: done");
  EXPECT_TRUE(wait_for_status("m0", Status::done));
}

TEST_F(DispatcherMiddlewareTest, WhatAnEndThrowsDecidesAboutTheMessage) {
  handlers_.around_async(
      [this](const ClaimedMessage& claimed, const HandlerContext&, const NextAsyncHandler& next) {
        next(note_end(claimed.message.key.message_id.str()));
      });
  handlers_.around_async(
      [](const ClaimedMessage& claimed, const HandlerContext&, const NextAsyncHandler& next) {
        next([&claimed](const std::exception_ptr&) {
          const MessageId& id = claimed.message.key.message_id;
          if (id == "refused") throw RetryAfter(seconds{1}, "not audited");
          if (id == "translated") throw PermanentFailure("translated");
        });
      });
  handlers_.on_async("*", [](const ClaimedMessage& claimed, Completion completion) {
    const MessageId& id = claimed.message.key.message_id;
    if (id == "good" || id == "refused") return completion.done();
    completion.failed(std::runtime_error("it failed"));
  });
  for (const char* id : {"good", "refused", "translated", "passed"}) enqueue(message(id));
  dispatch();
  EXPECT_EQ(notes(), "good: done, refused: not audited, translated: translated, passed: it failed");
  EXPECT_EQ(record("good").status, Status::done);
  EXPECT_EQ(record("refused").eligible_at, clock_.now() + seconds{1});
  EXPECT_EQ(record("translated").status, Status::dead);
  EXPECT_EQ(record("passed").history.last_error, "it failed");
}

TEST_F(DispatcherMiddlewareTest, TheEndIsToldOnceHoweverTheHandlerEnds) {
  handlers_.around_async(
      [this](const ClaimedMessage& claimed, const HandlerContext&, const NextAsyncHandler& next) {
        next(note_end(claimed.message.key.message_id.str()));
        note("returned");
      });
  handlers_.on_async("*", [](const ClaimedMessage& claimed, Completion completion) {
    const MessageId& id = claimed.message.key.message_id;
    if (id == "said") {
      completion.done();
      completion.failed(PermanentFailure("too late"));
      throw std::runtime_error("too late as well");
    }
    if (id == "thrown") throw std::runtime_error("no network");
    // Of "dropped" it is destroyed.
  });
  for (const char* id : {"said", "thrown", "dropped"}) enqueue(message(id));
  dispatch();
  EXPECT_EQ(notes(),
            "said: done, returned, thrown: no network, returned, returned, "
            "dropped: the handler dropped its completion without using it");
  EXPECT_EQ(record("said").status, Status::done);
  EXPECT_EQ(record("thrown").history.last_error, "no network");
  EXPECT_EQ(record("dropped").history.attempt, 1);
}

TEST_F(DispatcherMiddlewareTest, OneThatThrowsBeforeTheHandlerFailsTheMessage) {
  handlers_.around_async(note_all("a"));
  handlers_.around_async([](const ClaimedMessage&, const HandlerContext&, const NextAsyncHandler&) {
    throw PermanentFailure("not allowed");
  });
  fail_if_handled();
  enqueue_many(1);
  EXPECT_EQ(dispatch().dead, 1U);
  EXPECT_EQ(notes(), "<a, a: not allowed, a>");
  EXPECT_EQ(record("m0").history.last_error, "not allowed");
}

TEST_F(DispatcherMiddlewareTest, OneThatThrowsWhileTheHandlerIsUnderWayEndsTheCall) {
  handlers_.around_async(note_all("a"));
  handlers_.around_async(
      [this](const ClaimedMessage&, const HandlerContext&, const NextAsyncHandler& next) {
        next(note_end("b"));
        throw std::runtime_error("no room");
      });
  keep_completions();
  enqueue_many(1);
  const auto ending = start();
  ASSERT_TRUE(wait_for_notes(5));
  completions_.next().failed(PermanentFailure("too late"));
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(notes(), "<a, handler, b: no room, a: no room, a>");
  EXPECT_EQ(record("m0").history.last_error, "no room");
  EXPECT_EQ(record("m0").history.attempt, 1);
}

TEST_F(DispatcherMiddlewareTest, TheOutermostThatThrowsFailsTheMessageToo) {
  handlers_.around_async([](const ClaimedMessage&, const HandlerContext&, const NextAsyncHandler&) {
    throw PermanentFailure("not allowed");
  });
  fail_if_handled();
  enqueue_many(1);
  EXPECT_EQ(dispatch().dead, 1U);
}

TEST_F(DispatcherMiddlewareTest, AnEndThatFindsNoMemoryIsToldToo) {
  std::optional<FailingAllocation> no_memory;
  handlers_.around_async(note_all("a"));
  handlers_.around_async(
      [&](const ClaimedMessage&, const HandlerContext&, const NextAsyncHandler& next) {
        AsyncEnd on_end = [&no_memory, end = note_end("b")](const std::exception_ptr& failure) {
          no_memory.reset();
          end(failure);
        };
        no_memory.emplace(0);
        next(std::move(on_end));
      });
  fail_if_handled();
  enqueue_many(1);
  dispatch();
  EXPECT_EQ(notes(), "<a, b: std::bad_alloc, a: std::bad_alloc, a>");
  EXPECT_NE(record("m0").status, Status::done);
}

TEST_F(DispatcherMiddlewareTest, WithoutACallOfNextTheMessageIsDone) {
  handlers_.around_async(note_all("a"));
  handlers_.around_async(
      [](const ClaimedMessage&, const HandlerContext&, const NextAsyncHandler&) {});
  fail_if_handled();
  enqueue_many(1);
  EXPECT_EQ(dispatch().handled, 1U);
  EXPECT_EQ(notes(), "<a, a>, a: done");
}

TEST_F(DispatcherMiddlewareTest, EachEndIsToldOnceWhicheverThreadCompletes) {
  std::atomic<int> begun = 0;
  std::atomic<int> done = 0;
  std::atomic<int> failed = 0;
  handlers_.around_async(
      [&](const ClaimedMessage&, const HandlerContext&, const NextAsyncHandler& next) {
        ++begun;
        next([&](const std::exception_ptr& failure) { ++(failure ? failed : done); });
      });
  handlers_.on_async("*", [this](const ClaimedMessage&, Completion completion) {
    completions_.take(std::move(completion));
  });
  enqueue_many(100);
  const auto ending = start({.workers = 4});
  ASSERT_TRUE(completions_.wait_for(100));
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int each = 0; each < 25; ++each) {
        Completion completion = completions_.next();
        if (each % 5 == 0) completion.failed(PermanentFailure("no"));
        completion.done();
      }
    });
  }
  threads.clear();
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(begun, 100);
  EXPECT_EQ(done, 80);
  EXPECT_EQ(failed, 20);
}

TEST_F(DispatcherMiddlewareTest, AStopTellsTheEndOfWhatItReleases) {
  handlers_.around_async(note_all("a"));
  keep_completions();
  enqueue_many(1);
  const auto ending = start();
  ASSERT_TRUE(wait_for_notes(3));
  dispatcher_->stop(kSoon);
  EXPECT_EQ(notes(), std::string("<a, handler, a>, a: ") + kReleased);
  completions_.next().done();  // too late
  EXPECT_TRUE(eventually([&] { return !record("m0").lease; }));
  EXPECT_EQ(notes_.get().size(), 4U);
  EXPECT_EQ(record("m0").history.attempt, 0);
}

TEST_F(DispatcherMiddlewareTest, NobodyIsToldAfterTheDispatcherIsGone) {
  handlers_.around_async(note_all("a"));
  keep_completions();
  enqueue_many(1);
  {
    const auto ending = start();
    ASSERT_TRUE(completions_.wait_for(1));
  }
  EXPECT_EQ(notes(), std::string("<a, handler, a>, a: ") + kReleased);
  completions_.next().done();
  EXPECT_EQ(notes_.get().size(), 4U);
}

TEST_F(DispatcherMiddlewareTest, WhatIsReleasedBeforeItsHandlerBeginsIsToldAtOnce) {
  handlers_.around_async(
      [this](const ClaimedMessage&, const HandlerContext&, const NextAsyncHandler& next) {
        note("waits");
        gate_.pass();
        next(note_end("a"));
        note("returned");
      });
  fail_if_handled();
  enqueue_many(1);
  {
    const auto ending = start();
    ASSERT_TRUE(wait_for_notes(1));
    dispatcher_->stop(kSoon);
    EXPECT_TRUE(eventually([&] { return !record("m0").lease; }));
    EXPECT_EQ(notes(), "waits");
  }
  EXPECT_EQ(notes(), std::string("waits, a: ") + kReleased + ", returned");
  EXPECT_EQ(record("m0").history.attempt, 0);
}

TEST_F(DispatcherMiddlewareTest, PublishersOfBothKindsHaveIt) {
  Publishers publishers;
  publishers.on("mail", [](const ClaimedMessage&, HandlerContext&) {});
  publishers.on_async("call",
                      as_async(callable_publisher([](const ClaimedMessage&, HandlerContext&) {
                        throw RetryAfter(seconds{1}, "the line is busy");
                      })));
  publishers.around(
      [this](const ClaimedMessage& claimed, HandlerContext&, const NextHandler& next) {
        note("around " + claimed.message.topic.str());
        next();
      });
  publishers.around_async(note_all("call"));
  for (const char* topic : {"mail", "call"}) store_.outbox().enqueue(message(topic, topic));
  dispatch_pending(store_.outbox(), publishers, 10, {}, {logger_, *observer_, clock_});
  EXPECT_EQ(notes(), "around mail, <call, call: the line is busy, call>");
}

TEST_F(SetDispatcherTest, MiddlewareOfEachKindSaysFromWhichStoreAMessageIs) {
  list({{"a", "1"}, {"b", "2"}});
  handlers_.on_batch("batch", [](std::span<BatchMessage>) {});
  handlers_.on_async("async",
                     [](const ClaimedMessage&, Completion completion) { completion.done(); });
  handlers_.around_batch([this](std::span<BatchMessage> batch, const NextHandler& next) {
    next();
    note(batch[0].context().store());
  });
  handlers_.around_async(
      [this](const ClaimedMessage&, const HandlerContext& context, const NextAsyncHandler& next) {
        next([&](const std::exception_ptr&) { note(context.store()); });
      });
  const auto ending = start();
  enqueue("a", "m", "batch");
  enqueue("b", "m", "async");
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  std::string all = handled();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, "ab");
}

}  // namespace
}  // namespace oncebox
