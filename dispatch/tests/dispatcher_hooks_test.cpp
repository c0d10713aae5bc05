// What is told of and done around handlers: the last attempt, retries of their own, the dead,
// middleware.

#include <algorithm>

#include "dispatcher_fixture.hpp"
#include "expect_error.hpp"
#include "oncebox/dispatch/dispatch_pending.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"
#include "set_dispatcher_fixture.hpp"

namespace oncebox {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Notes = std::vector<std::string>;

class DispatcherHooksTest : public DispatcherTest {
 protected:
  void note(const std::string& text) {
    notes_.change([&](Notes& all) { all.push_back(text); });
  }
  /// Handles what is pending now.
  DispatchedPending dispatch(const DispatcherOptions& options = {}) {
    return dispatch_pending(queue(), handlers_, 100, options, {logger_, *observer_, clock_});
  }
  void dispatch_and_advance(Duration by) {
    dispatch();
    clock_.advance(by);
  }
  [[nodiscard]] std::string notes() const {
    std::string text;
    for (const std::string& each : notes_.get()) text += (text.empty() ? "" : ", ") + each;
    return text;
  }
  /// Says whether this is the last attempt, and fails.
  static void fail(const ClaimedMessage&, HandlerContext& context) {
    throw std::runtime_error(context.is_last_attempt() ? "the last" : "not the last");
  }

  Watched<Notes> notes_;
};

TEST_F(DispatcherHooksTest, AHandlerHasItsOwnRetries) {
  handlers_.on("mail.*", fail,
               {.retry = RetryPolicy{.backoff = FixedDelay{seconds{7}}, .max_attempts = 2}});
  handlers_.on("*", fail);
  enqueue(message("m", "mail.send"));
  enqueue(message("o"));
  const DispatcherOptions options{
      .retries = RetryPolicies({.backoff = FixedDelay{seconds{1}}, .max_attempts = 5})};
  EXPECT_EQ(dispatch(options).retried, 2U);
  EXPECT_EQ(record("m").eligible_at, clock_.now() + seconds{7});
  EXPECT_EQ(record("o").eligible_at, clock_.now() + seconds{1});
  clock_.advance(seconds{7});
  EXPECT_EQ(dispatch(options).dead, 1U);
  EXPECT_EQ(record("m").status, Status::dead);
  EXPECT_EQ(record("o").history.attempt, 2);
}

TEST_F(DispatcherHooksTest, AHandlerIsToldOfItsLastAttempt) {
  handlers_.on("*", fail,
               {.retry = RetryPolicy{.backoff = FixedDelay{seconds{1}}, .max_attempts = 3}});
  enqueue(message("m"));
  for (const char* error : {"not the last", "not the last", "the last"}) {
    dispatch_and_advance(seconds{1});
    EXPECT_EQ(record("m").history.last_error, error);
  }
  EXPECT_EQ(record("m").status, Status::dead);
}

TEST_F(DispatcherHooksTest, WithAnAgeTheLastAttemptIsTheFirstOneThatIsOldEnough) {
  handlers_.on(
      "*", fail,
      {.retry = RetryPolicy{
           .backoff = FixedDelay{seconds{1}}, .max_attempts = 1, .give_up_after = hours{1}}});
  enqueue(message("m"));
  dispatch_and_advance(hours{1});
  EXPECT_EQ(record("m").history.last_error, "not the last");
  dispatch();
  EXPECT_EQ(record("m").history.last_error, "the last");
  EXPECT_EQ(record("m").status, Status::dead);
}

TEST_F(DispatcherHooksTest, TheLastAttemptOfTheQueuesOwnPolicyIsKnown) {
  RecordProperty("requirement", "R-31");
  handlers_.on("*", fail);
  enqueue(message("m"));
  for (int attempt = 1; attempt < defaults::kMaxAttempts; ++attempt) {
    dispatch_and_advance(seconds{60});
    EXPECT_EQ(record("m").history.last_error, "not the last");
  }
  dispatch();
  EXPECT_EQ(record("m").history.last_error, "the last");
  EXPECT_EQ(record("m").status, Status::dead);
}

TEST_F(DispatcherHooksTest, TheLastAttemptByARuleOfTheStoreIsKnown) {
  RecordProperty("requirement", "R-31");
  store_.policies().update(QueueKind::inbox, "order.*",
                           {.max_attempts = 1, .give_up_after = hours{1}});
  handlers_.on("*", fail);
  enqueue(message("m"));
  dispatch_and_advance(hours{1});
  EXPECT_EQ(record("m").history.last_error, "not the last");
  dispatch();
  EXPECT_EQ(record("m").history.last_error, "the last");
  EXPECT_EQ(record("m").status, Status::dead);
}

TEST_F(DispatcherHooksTest, OfStoreAndDispatcherTheOneThatSaysTheEndIsBelieved) {
  RecordProperty("requirement", "R-31");
  store_.policies().update(QueueKind::inbox, "*", {.max_attempts = 2});
  handlers_.on("*", fail);
  enqueue(message("o"));
  enqueue(message("m", "mail.send"));
  DispatcherOptions options;
  options.retries.set_limit("order.*", AttemptLimit{1})
      .set_delays("*", {.backoff = FixedDelay{seconds{1}}});
  dispatch(options);
  EXPECT_EQ(record("o").history.last_error, "the last");
  EXPECT_EQ(record("o").status, Status::dead);
  EXPECT_EQ(record("m").history.last_error, "not the last");
  clock_.advance(seconds{1});
  dispatch(options);
  EXPECT_EQ(record("m").history.last_error, "the last");
  EXPECT_EQ(record("m").status, Status::dead);
}

/// A server of before: its claims do not tell where attempts end.
class OldServer final : public ForwardingQueueStore {
 public:
  using ForwardingQueueStore::ForwardingQueueStore;

 private:
  ClaimResult do_claim(const ClaimRequest& request) override {
    ClaimResult claimed = below().claim(request);
    for (ClaimedMessage& one : claimed.messages) one.attempt_limit.reset();
    return claimed;
  }
};

TEST_F(DispatcherHooksTest, WhereTheStoreDoesNotTellTheEndNoAttemptIsKnownToBeTheLast) {
  store_.policies().update(QueueKind::inbox, "*", {.max_attempts = 1});
  handlers_.on("*", fail);
  enqueue(message("m"));
  OldServer old(queue());
  dispatch_pending(old, handlers_, 1, {}, {logger_, *observer_, clock_});
  EXPECT_EQ(record("m").history.last_error, "not the last");
  EXPECT_EQ(record("m").status, Status::dead);
}

TEST_F(DispatcherHooksTest, TheDeadAreToldByTopicAfterTheirDeathIsRecorded) {
  handlers_.on("order.*", [](const ClaimedMessage& claimed, HandlerContext&) {
    if (claimed.message.key.message_id == "retried") throw RetryAfter(seconds{1}, "later");
    if (claimed.message.key.message_id == "dead") throw PermanentFailure("no such order");
  });
  handlers_.on("mail.*", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("no such address");
  });
  const auto note_as = [this](const std::string& name) {
    return [this, name](const DeadMessage& dead) {
      const std::string id = dead.claimed.message.key.message_id.str();
      EXPECT_EQ(record(id).status, Status::dead);
      EXPECT_EQ(dead.claimed.message.payload.bytes(), "s3cret payload of " + id);
      EXPECT_EQ(dead.store, "inbox");
      note(name + ": " + id + " " + std::string(dead.error));
    };
  };
  handlers_.on_dead("*", note_as("all"));
  handlers_.on_dead("mail.*", note_as("mail"));
  for (const char* id : {"done", "retried", "dead"}) enqueue(message(id));
  enqueue(message("m", "mail.send"));
  enqueue(message("u", "unknown"));
  dispatch({.no_handler = NoHandlerPolicy::fail});
  Notes all = notes_.get();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Notes{"all: dead no such order", "all: u no handler for topic unknown",
                        "mail: m no such address"}));
}

TEST_F(DispatcherHooksTest, AHandlerOfTheDeadThatFailsChangesNothing) {
  handlers_.on("*", [](const ClaimedMessage&, HandlerContext&) { throw PermanentFailure("no"); });
  handlers_.on_dead("*", [](const DeadMessage&) { throw std::runtime_error("nobody to alert"); });
  enqueue(message("m"));
  const auto ending = start();
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  EXPECT_EQ(record("m").status, Status::dead);
  EXPECT_TRUE(logger_.contains("error handler of dead messages failed"));
  EXPECT_TRUE(logger_.contains("nobody to alert"));
  EXPECT_FALSE(logger_.contains("s3cret"));
}

TEST_F(DispatcherHooksTest, MiddlewareRunsAroundEveryHandlerTheFirstOneOutermost) {
  const auto note_as = [this](const std::string& name) {
    return [this, name](const ClaimedMessage& claimed, HandlerContext& context,
                        const NextHandler& next) {
      EXPECT_EQ(&claimed, &context.message());
      note("<" + name);
      next();
      note(name + ">");
    };
  };
  handlers_.around(note_as("a"));
  handlers_.on("*", [this](const ClaimedMessage&, HandlerContext&) { note("handler"); });
  handlers_.around(note_as("b"));
  enqueue(message("m"));
  EXPECT_EQ(dispatch().handled, 1U);
  EXPECT_EQ(notes(), "<a, <b, handler, b>, a>");
}

TEST_F(DispatcherHooksTest, WhatLeavesTheMiddlewareDecidesAboutTheMessage) {
  handlers_.on("*", [](const ClaimedMessage& claimed, HandlerContext&) {
    if (claimed.message.key.message_id != "good") throw std::runtime_error("it failed");
  });
  handlers_.around([](const ClaimedMessage& claimed, HandlerContext&, const NextHandler& next) {
    const MessageId& id = claimed.message.key.message_id;
    try {
      next();
    } catch (const std::runtime_error&) {
      if (id == "swallowed") return;
      if (id == "translated") throw PermanentFailure("translated");
      throw;
    }
    throw RetryAfter(seconds{1}, "the commit failed");
  });
  for (const char* id : {"good", "swallowed", "translated", "passed"}) enqueue(message(id));
  dispatch();
  EXPECT_EQ(record("good").history.last_error, "the commit failed");
  EXPECT_EQ(record("swallowed").status, Status::done);
  EXPECT_EQ(record("translated").status, Status::dead);
  EXPECT_EQ(record("passed").history.last_error, "it failed");
}

TEST_F(DispatcherHooksTest, TheLastAttemptOfARevivedMessageCountsFromItsRevival) {
  RecordProperty("requirement", "R-24,R-31");
  handlers_.on("*",
               [this](const ClaimedMessage&, HandlerContext& context) {
                 note(context.is_last_attempt() ? "the last" : "not the last");
                 throw std::runtime_error("it failed");
               },
               {.retry = RetryPolicy{.max_attempts = 1, .give_up_after = std::chrono::hours{1}}});
  enqueue(message("m"));
  clock_.advance(std::chrono::hours{1});
  dispatch();
  const std::vector<MessageKey> keys{message("m").key};
  EXPECT_EQ(store_.inbox_operator().revive(keys).at(0), ReviveOutcome::revived);
  dispatch();
  EXPECT_EQ(notes(), "the last, not the last");
  EXPECT_EQ(record("m").status, Status::processing);
}

TEST_F(DispatcherHooksTest, APublisherHasThemToo) {
  Publishers publishers;
  publishers.on("*", [](const ClaimedMessage&, HandlerContext&) { throw std::runtime_error("x"); },
                {.retry = RetryPolicy{.max_attempts = 1}});
  publishers.around(
      [this](const ClaimedMessage&, HandlerContext& context, const NextHandler& next) {
        note(context.is_last_attempt() ? "the last" : "not the last");
        next();
      });
  publishers.on_dead("*", [this](const DeadMessage& dead) { note(std::string(dead.error)); });
  store_.outbox().enqueue(message("m"));
  dispatch_pending(store_.outbox(), publishers, 1, {}, {logger_, *observer_, clock_});
  EXPECT_EQ(notes(), "the last, x");
}

TEST_F(DispatcherHooksTest, WhatMakesNoSenseIsRefused) {
  const auto nothing = [](const DeadMessage&) {};
  handlers_.on_dead("order.*", nothing);
  expect_error(ErrorCode::conflict, [&] { handlers_.on_dead("order.*", nothing); });
  expect_error(ErrorCode::invalid_argument, [&] { handlers_.on_dead("mail.*", {}); });
  expect_error(ErrorCode::invalid_argument, [&] { handlers_.around({}); });
  expect_error(ErrorCode::invalid_argument, [&] { handlers_.around_batch({}); });
  expect_error(ErrorCode::invalid_argument, [&] { handlers_.around_async({}); });
  expect_error(ErrorCode::out_of_range,
               [&] { handlers_.on("*", fail, {.retry = RetryPolicy{.max_attempts = 0}}); });
  EXPECT_EQ(handlers_.dead_handlers().size(), 1U);
  EXPECT_TRUE(handlers_.middleware().empty());
  EXPECT_TRUE(handlers_.batch_middleware().empty());
  EXPECT_TRUE(handlers_.async_middleware().empty());
  EXPECT_TRUE(handlers_.registrations().empty());
}

TEST_F(SetDispatcherTest, HooksSayFromWhichStoreAMessageIs) {
  list({{"a", "1"}, {"b", "2"}});
  handlers_.on("*",
               [](const ClaimedMessage&, HandlerContext& context) {
                 if (context.store() == "b") throw std::runtime_error("this time it failed");
               },
               {.retry = RetryPolicy{.max_attempts = 1}});
  handlers_.around([this](const ClaimedMessage&, HandlerContext& context, const NextHandler& next) {
    EXPECT_TRUE(context.is_last_attempt());
    next();
    note(context.store());
  });
  handlers_.on_dead("*", [this](const DeadMessage& dead) { note(dead.store); });
  const auto ending = start();
  for (const char* name : {"a", "b"}) enqueue(name, "m");
  ASSERT_TRUE(dispatcher_->wait_until_idle({.timeout = kPatience}));
  std::string all = handled();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, "ab");
  EXPECT_EQ(status("b", "m"), Status::dead);
}

}  // namespace
}  // namespace oncebox
