// Where the payloads that operators replaced are kept, and for how long.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oncebox/postgresql/postgresql_store.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {
namespace {

using namespace std::chrono_literals;

class PostgresqlEditTest : public ::testing::Test {
 protected:
  void bury(const std::string& id) {
    store_.inbox().mark({.key = {"shop", id}, .as = MarkAs::dead, .error = "no"});
  }
  [[nodiscard]] std::int64_t kept() {
    return space_.number("SELECT count(*) FROM {schema}.oncebox_inbox_past_content");
  }

  TestSpace space_;
  PostgresqlStore store_{space_.options()};
};

TEST_F(PostgresqlEditTest, NothingIsLeftOfTheContentsOfMessagesThatAreGone) {
  RecordProperty("requirement", "IBX-098");
  QueueOperator& dead = store_.inbox_operator();
  std::vector<Message> messages;
  std::vector<EditedMessage> edits;
  for (const char* id : {"purged", "matched", "dead", "done"}) {
    messages.push_back({.key = {"shop", id}, .topic = "t", .payload = "old"});
    edits.push_back({.key = {"shop", id}, .payload = "new"});
  }
  store_.inbox().enqueue(messages);
  for (const Message& message : messages) bury(message.key.message_id.str());
  dead.revive_edited(edits);
  for (const char* id : {"purged", "matched", "dead"}) bury(id);
  const auto claimed = store_.inbox().claim({.owner = OwnerToken::generate()});
  ASSERT_EQ(claimed.size(), 1U);
  EXPECT_EQ(claimed.front().message.payload, Payload("new"));
  store_.inbox().settle({.delivery = delivery_of(claimed.front())});
  EXPECT_EQ(kept(), 4);
  dead.purge(std::vector<MessageKey>{{"shop", "purged"}});
  EXPECT_EQ(kept(), 3);
  EXPECT_EQ(dead.purge_matching({.message_id = "matched"}, 1), 1U);
  EXPECT_EQ(kept(), 2);
  dead.cleanup({.done_retention = 0s});
  EXPECT_EQ(kept(), 1);
  dead.cleanup({.dead_retention = 0s});
  EXPECT_EQ(kept(), 0);
}

TEST_F(PostgresqlEditTest, MessageOfARunIsEditedAlone) {
  std::vector<Message> messages;
  for (int i = 0; i < 10; ++i) {
    messages.push_back({.key = {"shop", std::to_string(i)}, .topic = "t", .payload = "old"});
  }
  store_.inbox().enqueue(messages);
  bury("4");
  const std::vector<EditedMessage> edits{{.key = {"shop", "4"}, .payload = "longer than before"}};
  EXPECT_EQ(store_.inbox_operator().revive_edited(edits), std::vector{ReviveOutcome::revived});
  const auto claimed = store_.inbox().claim({.owner = OwnerToken::generate()});
  ASSERT_EQ(claimed.size(), 10U);
  for (const ClaimedMessage& one : claimed) {
    const bool edited = one.message.key.message_id == "4";
    EXPECT_EQ(one.message.payload, Payload(edited ? "longer than before" : "old"));
    EXPECT_EQ(one.history.content_version, edited ? 2 : 1);
  }
}

}  // namespace
}  // namespace oncebox::postgresql
