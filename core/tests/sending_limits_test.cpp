// Inbox and Outbox with callers that do not wait for ever.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <semaphore>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "expect_error.hpp"
#include "oncebox/driver/forwarding_queue_store.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/outbox.hpp"

namespace oncebox {
namespace {

using namespace std::chrono_literals;
using LimitedCall = std::function<void(const CallOptions&)>;

/// A queue whose enqueues begin, and go on when they are let.
class HeldQueue final : public ForwardingQueueStore {
 public:
  using ForwardingQueueStore::ForwardingQueueStore;

  std::counting_semaphore<> began{0};
  std::counting_semaphore<> may_go_on{0};

 private:
  void forward(std::string_view name, const std::function<void()>& call) override {
    if (name == "enqueue") {
      began.release();
      may_go_on.acquire();
    }
    call();
  }
};

class SendingLimits : public ::testing::Test {
 protected:
  static Message message(const std::string& id) { return {.key = {"shop", id}, .topic = "t"}; }
  [[nodiscard]] bool is_stored(const std::string& id) {
    return store_.inbox().find(MessageKey{"shop", id}).has_value();
  }

  memory::MemoryStore store_;
};

TEST_F(SendingLimits, NoCallOfAnInboxOrOutboxBeginsAfterItsLimit) {
  RecordProperty("requirement", "R-36");
  Inbox inbox(store_);
  Outbox outbox(store_);
  const MessageKey key{"shop", "1"};
  const std::vector<std::pair<const char*, LimitedCall>> calls{
      {"already_processed", [&](const auto& call) { inbox.already_processed(key, {}, call); }},
      {"observe", [&](const auto& call) { inbox.observe(key, {}, call); }},
      {"mark_processing", [&](const auto& call) { inbox.mark_processing(key, call); }},
      {"mark_processed", [&](const auto& call) { inbox.mark_processed(key, call); }},
      {"mark_dead", [&](const auto& call) { inbox.mark_dead(key, "no", call); }},
      {"enqueue", [&](const auto& call) { inbox.enqueue(message("1"), call); }},
      {"enqueue all", [&](const auto& call) { inbox.enqueue(std::vector{message("1")}, call); }},
      {"enqueue_each", [&](const auto& call) { inbox.enqueue_each({message("1")}, call); }},
      {"outbox enqueue", [&](const auto& call) { outbox.enqueue({.topic = "t"}, {}, call); }},
      {"outbox all", [&](const auto& call) { outbox.enqueue_all({{.topic = "t"}}, {}, call); }},
      {"outbox find", [&](const auto& call) { (void)outbox.find("1", call); }},
  };
  std::stop_source stop;
  stop.request_stop();
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    expect_error(ErrorCode::timeout, [&] { call(CallOptions::within(0ms)); });
    expect_error(ErrorCode::cancelled, [&] { call({.stop = stop.get_token()}); });
  }
  EXPECT_FALSE(is_stored("1"));
  EXPECT_EQ(store_.outbox_operator().count({}), 0U);
}

TEST_F(SendingLimits, AMessageBehindABatchThatDoesNotEndIsWithdrawn) {
  RecordProperty("requirement", "R-36");
  HeldQueue queue(store_.inbox());
  Inbox inbox(queue);
  auto first = inbox.enqueue_future(message("first"));
  queue.began.acquire();
  expect_error(ErrorCode::timeout,
               [&] { inbox.enqueue(message("second"), CallOptions::within(1ms)); });
  const auto each = inbox.enqueue_each({message("third")}, CallOptions::within(1ms));
  ASSERT_FALSE(each.front().ok());
  EXPECT_EQ(each.front().error()->code(), ErrorCode::timeout);
  queue.may_go_on.release();
  EXPECT_EQ(first.get().status, EnqueueStatus::accepted);
  inbox.stop();
  EXPECT_FALSE(is_stored("second"));
  EXPECT_FALSE(is_stored("third"));
}

}  // namespace
}  // namespace oncebox
