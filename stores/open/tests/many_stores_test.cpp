// One dispatcher over stores of different kinds, opened by URL.

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/testing/postgresql_server.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox {
namespace {

class ManyStores : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<StoreLocation> locations() {
    std::vector<StoreLocation> all{{"in-memory", "memory:"}};
    for (int i = 0; i < 20; ++i) {
      const std::string name = "file-" + std::to_string(i);
      all.push_back({name, "sqlite:" + folder_.file(name)});
    }
    for (const std::string name : {"tenant_a", "tenant_b"}) {
      server_.execute("CREATE DATABASE " + name);
      all.push_back({name, server_.url(name) + "?schema_deployment=on"});
    }
    return all;
  }

  const testing::TemporaryFolder folder_;
  testing::PostgresqlServer server_;
  NullLogger logger_;
  Observer observer_;
  const SystemClock clock_;
};

TEST_F(ManyStores, OfEveryKindAreWorkedOnByOneDispatcherAlsoWhenOthersWriteToThem) {
  RecordProperty("requirement", "IBX-085,IBX-105");
  StoreSet stores(locations(),
                  [](const StoreLocation& location) { return open_store(location.url); }, {},
                  {.logger = logger_});
  std::mutex mutex;
  std::condition_variable changed;
  std::multiset<std::string> handled;
  Handlers handlers;
  handlers.on("*", [&](const ClaimedMessage& claimed, HandlerContext& context) {
    const std::lock_guard lock(mutex);
    handled.insert(std::string(context.store()) + "/" + claimed.message.key.message_id.str());
    changed.notify_all();
  });
  SetDispatcher dispatcher(stores, handlers, weighted_fair(), {},
                           {.logger = logger_, .clock = clock_});
  dispatcher.start();
  const auto wait_for = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds{60},
                            [&] { return handled.size() == count; });
  };

  const std::string id = OwnerToken::generate().to_string();
  const Message message{.key = {"shop", id}, .topic = "order.created", .payload = "{}"};
  std::size_t expected = 0;
  for (const MemberStorePtr& member : stores.members()) {
    EXPECT_EQ(member->store().inbox().enqueue(message).status, EnqueueStatus::accepted);
    ++expected;
  }
  EXPECT_TRUE(wait_for(expected));

  // By another handle, as another process would: the dispatcher is told, or polls.
  const auto other = open_store("sqlite:" + folder_.file("file-7"));
  other->inbox().enqueue({.key = {"shop", id + "-2"}, .topic = "order.created", .payload = "{}"});
  EXPECT_TRUE(wait_for(expected + 1));
  EXPECT_TRUE(dispatcher.stop().complete());
  for (const MemberStorePtr& member : stores.members()) {
    EXPECT_EQ(member->store().inbox().find(message.key)->status, Status::done) << member->name();
  }
}

}  // namespace
}  // namespace oncebox
