// Payloads and headers stay in the database when messages are only changed: nobody knows how large
// they are together.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cutting_proxy.hpp"
#include "messages.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/shared_postgresql.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

class LargeMessages : public ::testing::Test {
 protected:
  LargeMessages() {
    for (const char* const id : {"a", "b", "c", "d"}) {
      Message large = message(id);
      large.payload = std::string(kMebibyte, 'x');
      for (int i = 0; i < 16; ++i) {
        large.headers.set("h" + std::to_string(i), std::string(Headers::kMaxValueBytes, 'y'));
      }
      messages_.push_back(large);
      keys_.push_back(large.key);
    }
  }

  [[nodiscard]] Options through_proxy() const {
    Options options = space_.options();
    options.connection = proxy_.connection();
    return options;
  }

  /// Runs a call, of which the server must send little.
  void expect_little(std::string_view what, const std::function<void()>& call) {
    const std::size_t before = proxy_.answered_bytes();
    call();
    EXPECT_LT(proxy_.answered_bytes() - before, 64'000U) << what;
  }

  std::vector<EnqueueStatus> enqueue(const std::vector<Message>& messages) {
    std::vector<EnqueueStatus> statuses;
    for (const EnqueueOutcome& outcome : store_.inbox().enqueue(messages)) {
      statuses.push_back(outcome.status);
    }
    return statuses;
  }

  TestSpace space_;
  CuttingProxy proxy_{testing::shared_postgresql_url()};
  testing::FakeClock clock_;
  PostgresqlStore store_{through_proxy(), clock_};
  std::vector<Message> messages_;
  std::vector<MessageKey> keys_;
};

TEST_F(LargeMessages, KnownKeysAreComparedByTheServer) {
  RecordProperty("requirement", "R-38");
  for (const bool has_hash : {true, false}) {
    std::vector<Message> messages = messages_;
    if (has_hash) {
      for (Message& each : messages) each.hash = ContentHash::sha256_of(each.payload);
    }
    enqueue(messages);
    expect_little("the same again", [&] {
      EXPECT_EQ(enqueue(messages), std::vector(4, EnqueueStatus::duplicate)) << has_hash;
    });
    messages.front().payload = "small";
    messages.front().hash.reset();
    expect_little("other content", [&] {
      const std::vector<EnqueueStatus> statuses = enqueue(messages);
      EXPECT_EQ(statuses.front(), EnqueueStatus::updated);
      EXPECT_EQ(statuses.back(), EnqueueStatus::duplicate);
    });
    EXPECT_EQ(store_.inbox().find(keys_.front())->message->payload, Payload("small"));
    EXPECT_EQ(store_.inbox().find(keys_.back())->message->payload.size(), kMebibyte);
    EXPECT_EQ(store_.inbox().find(keys_.back())->message->headers, messages_.back().headers);
    store_.inbox_operator().act(keys_, Delete{});
  }
}

TEST_F(LargeMessages, ContentWithoutAHashThatComesTwiceInACallIsADuplicate) {
  enqueue({messages_[0]});
  Message small = messages_[0];
  small.payload = "small";
  EXPECT_EQ(enqueue({messages_[0], small, small, messages_[1], messages_[1]}),
            (std::vector{EnqueueStatus::duplicate, EnqueueStatus::updated, EnqueueStatus::duplicate,
                         EnqueueStatus::accepted, EnqueueStatus::duplicate}));
}

TEST_F(LargeMessages, CallsByKeyReadNeitherPayloadsNorHeaders) {
  RecordProperty("requirement", "R-38");
  for (Message& each : messages_) each.expires_at = clock_.now() + 1h;
  enqueue(messages_);
  QueueOperator& operations = store_.inbox_operator();
  std::vector<Observation> observations;
  std::vector<Mark> marks;
  std::vector<Settlement> settlements;
  for (const MessageKey& key : keys_) {
    observations.push_back({.key = key});
    marks.push_back({.key = key, .as = MarkAs::dead});
    settlements.push_back({.delivery = {.key = key, .owner = OwnerToken::generate()}});
  }
  expect_little("observe", [&] { store_.inbox().observe(observations); });
  expect_little("settle", [&] { store_.inbox().settle(settlements); });
  expect_little("mark", [&] { store_.inbox().mark(marks); });
  expect_little("revive", [&] { operations.revive(keys_); });
  expect_little("cancel", [&] { operations.act(keys_, Cancel{}); });
  operations.revive(keys_);
  clock_.advance(2h);
  expect_little("reap", [&] { store_.inbox().reap({}); });
  const MessageRecord record = store_.inbox().find(keys_.front()).value();
  EXPECT_EQ(record.message->payload, messages_.front().payload);
  EXPECT_EQ(record.message->headers, messages_.front().headers);
}

TEST_F(LargeMessages, AnEditReplacesThePayloadAndKeepsTheHeaders) {
  enqueue(messages_);
  store_.inbox().mark(Mark{.key = keys_.front(), .as = MarkAs::dead});
  const std::vector<EditedMessage> edits{{.key = keys_.front(), .payload = "edited"}};
  expect_little("edit", [&] { store_.inbox_operator().revive_edited(edits); });
  const MessageRecord record = store_.inbox().find(keys_.front()).value();
  EXPECT_EQ(record.message->payload, Payload("edited"));
  EXPECT_EQ(record.message->headers, messages_.front().headers);
}

TEST_F(LargeMessages, AClaimCountsTheBytesOfMessagesThatWereChanged) {
  enqueue(messages_);
  std::vector<Mark> marks;
  for (const MessageKey& key : keys_) marks.push_back({.key = key, .as = MarkAs::dead});
  store_.inbox().mark(marks);
  const std::vector<EditedMessage> edits{{.key = keys_[0], .payload = "edited"},
                                         {.key = keys_[1], .payload = "edited"}};
  store_.inbox_operator().revive_edited(edits);
  store_.inbox_operator().revive(std::vector{keys_[2]});
  const std::size_t headers = bytes_of(messages_.front().headers);
  const auto claimed = store_.inbox().claim(
      {.owner = OwnerToken::generate(), .max_bytes = 2 * (headers + 6) + kMebibyte});
  EXPECT_EQ(claimed.size(), 2U) << "the third has a mebibyte and its headers";
}

}  // namespace
}  // namespace oncebox::postgresql
