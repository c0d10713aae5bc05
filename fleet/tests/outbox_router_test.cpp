// From a routing key to the outbox of its store. What it shares with the router of inboxes is
// tested there.

#include "oncebox/fleet/outbox_router.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "expect_error.hpp"
#include "oncebox/fleet/inbox_router.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "watched.hpp"

namespace oncebox {
namespace {

class OutboxRouterTest : public ::testing::Test {
 protected:
  static OutboxMessage message(const std::string& id) {
    return {.topic = "receipt.due", .payload = "{}", .id = MessageId(id)};
  }
  [[nodiscard]] std::size_t messages_in(const std::string& store) {
    return stores_.find(store)->store().outbox_operator().count({});
  }

  Watched<std::vector<StoreLocation>> listed_{{{"acme", "1"}, {"zenith", "2"}, {"nova", "3"}}};
  StoreSet stores_{[this] { return listed_.get(); },
                   [](const StoreLocation&) { return std::make_unique<memory::MemoryStore>(); }};
};

TEST_F(OutboxRouterTest, AKeyLeadsToTheOutboxOfItsStore) {
  OutboxRouter router(stores_, {.outbox = {.name = "not used", .source = "shop"}});
  const auto outbox = router.route("acme");
  outbox->enqueue(message("a"));
  EXPECT_EQ(router.route("acme"), outbox) << "it is made once";
  EXPECT_EQ(messages_in("acme"), 1U);
  EXPECT_EQ(messages_in("zenith"), 0U);
  EXPECT_TRUE(stores_.find("acme")->store().outbox().find(MessageKey{"shop", "a"}));
  expect_error(ErrorCode::not_found, [&] { (void)router.route("nobody"); });
  expect_error(ErrorCode::invalid_argument, [&] { (void)router.route(" "); });
}

TEST_F(OutboxRouterTest, ByHashAKeyHasItsOutboxWhereItsInboxIs) {
  OutboxRouter outboxes(stores_, {.routing = Routing::by_hash});
  InboxRouter inboxes(stores_, {.routing = Routing::by_hash});
  for (int tenant = 0; tenant < 20; ++tenant) {
    const std::string id = std::to_string(tenant);
    outboxes.route(tenant)->enqueue(message(id));
    inboxes.route(tenant)->enqueue(
        {.key = {"shop", MessageId(id)}, .topic = "order", .payload = ""});
  }
  for (const char* const name : {"acme", "zenith", "nova"}) {
    Store& store = stores_.find(name)->store();
    EXPECT_EQ(store.inbox_operator().count({}), store.outbox_operator().count({})) << name;
  }
}

TEST_F(OutboxRouterTest, TheOutboxOfAStoreThatIsGoneIsLetGo) {
  OutboxRouter router(stores_);
  const std::weak_ptr<Outbox> outbox = router.route("acme");
  listed_.change([](auto& all) { all = {{"zenith", "2"}}; });
  stores_.refresh();
  EXPECT_TRUE(eventually([&] { return outbox.expired(); }));
  expect_error(ErrorCode::not_found, [&] { (void)router.route("acme"); });
}

}  // namespace
}  // namespace oncebox
