// From a routing key to the inbox of its store.

#include "oncebox/fleet/inbox_router.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "expect_error.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fault_injecting_queue_store.hpp"
#include "oncebox/testing/span_record.hpp"
#include "watched.hpp"

namespace oncebox {
namespace {

class TenantObserver final : public Observer {
 public:
  void on_enqueue(const Message&, const EnqueueOutcome&) noexcept override { ++enqueued; }
  int enqueued = 0;
};

class InboxRouterTest : public ::testing::Test {
 protected:
  void list(std::vector<StoreLocation> locations) {
    listed_.change([&](auto& all) { all = std::move(locations); });
    stores_.refresh();
  }
  [[nodiscard]] InboxRouter make(Routing routing = Routing::by_name) {
    return InboxRouter(stores_, {.routing = routing}, {logger_, observer(), clock_});
  }
  /// One for each store.
  [[nodiscard]] ObserverOfStore observer() {
    return [this](const std::string& store) -> Observer& { return observers_[store]; };
  }
  static Message message(const std::string& id) {
    return {.key = {"shop", id}, .topic = "order.created", .payload = "{}"};
  }
  [[nodiscard]] std::size_t messages_in(const std::string& store) {
    return stores_.find(store)->store().inbox_operator().count({});
  }

  Watched<std::vector<StoreLocation>> listed_;
  NullLogger logger_;
  std::map<std::string, TenantObserver> observers_;
  SystemClock clock_;
  StoreSet stores_{[this] { return listed_.get(); },
                   [](const StoreLocation& location) -> std::unique_ptr<Store> {
                     if (location.url == "down") throw Error(ErrorCode::unavailable, "down");
                     return std::make_unique<memory::MemoryStore>();
                   },
                   {.refresh_interval = std::chrono::hours{20},
                    .first_retry = std::chrono::hours{20},
                    .max_retry = std::chrono::hours{20}},
                   {.logger = logger_}};
};

TEST_F(InboxRouterTest, AKeyLeadsToTheInboxOfItsStore) {
  RecordProperty("requirement", "IBX-091");
  list({{"acme", "1"}, {"42", "2"}, {"6f1e0c1a-2b3c-4d5e-8f90-a1b2c3d4e5f6", "3"}});
  InboxRouter router = make();
  router.route("acme")->enqueue(message("a"));
  router.route(42)->enqueue(message("b"));
  router.route(std::uint64_t{42})->enqueue(message("c"));
  router.route(Uuid::parse("6f1e0c1a-2b3c-4d5e-8f90-a1b2c3d4e5f6"))->enqueue(message("d"));
  EXPECT_EQ(messages_in("acme"), 1U);
  EXPECT_EQ(messages_in("42"), 2U);
  EXPECT_EQ(messages_in("6f1e0c1a-2b3c-4d5e-8f90-a1b2c3d4e5f6"), 1U);
}

TEST_F(InboxRouterTest, ABlankKeyIsInvalidAndAnUnknownOneNotFound) {
  RecordProperty("requirement", "IBX-092");
  list({{"acme", "1"}, {"away", "down"}});
  InboxRouter router = make();
  for (const char* blank : {"", " ", "\t\n"}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)router.route(blank); });
  }
  for (const char* unknown : {"ACME", "nobody", "a/b"}) {
    expect_error(ErrorCode::not_found, [&] { (void)router.route(unknown); });
  }
  expect_error(ErrorCode::unavailable, [&] { (void)router.route("away"); });
}

TEST_F(InboxRouterTest, AnInboxIsMadeOnce) {
  RecordProperty("requirement", "IBX-123");
  list({{"acme", "1"}, {"other", "2"}});
  InboxRouter router = make();
  const auto first = router.route("acme");
  EXPECT_EQ(router.route("acme"), first);
  list({{"acme", "1"}});
  EXPECT_EQ(router.route("acme"), first) << "the others may come and go";
}

TEST_F(InboxRouterTest, TheInboxOfAStoreThatIsGoneIsLetGo) {
  RecordProperty("requirement", "IBX-096,IBX-123");
  list({{"acme", "1"}});
  InboxRouter router = make();
  const std::weak_ptr<Inbox> inbox = router.route("acme");
  const std::weak_ptr<MemberStore> member = stores_.find("acme");
  list({});
  EXPECT_TRUE(eventually([&] { return inbox.expired(); }));
  EXPECT_TRUE(eventually([&] { return member.expired(); })) << "somebody keeps it open";
  expect_error(ErrorCode::not_found, [&] { (void)router.route("acme"); });
}

TEST_F(InboxRouterTest, AStoreThatLeavesWhileItIsRoutedToIsLetGoToo) {
  RecordProperty("requirement", "IBX-096,IBX-123");
  InboxRouter router = make();
  std::vector<std::weak_ptr<MemberStore>> members;
  Watched<std::string> name;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 3; ++i) {
      callers.emplace_back([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          try {
            (void)router.route(name.get());
          } catch (const Error&) {
            // It is not there yet, or any more.
          }
        }
      });
    }
    for (int i = 0; i < 300; ++i) {
      const std::string next = "s" + std::to_string(i);
      name.change([&](std::string& current) { current = next; });
      list({{next, "1"}});
      members.push_back(stores_.find(next));
      list({});
    }
  }
  for (const auto& member : members) {
    EXPECT_TRUE(eventually([&] { return member.expired(); }));
  }
}

/// A store whose messages are not committed before somebody wants that.
class SlowToCommit final : public ForwardingStore {
 public:
  SlowToCommit(Watched<int>& commits, const Watched<bool>& may_commit)
      : ForwardingStore(std::make_unique<memory::MemoryStore>()),
        inbox_(below().inbox(), [&](std::string_view call) {
          if (call != "enqueue") return testing::Fault::none;
          commits.change([](int& count) { ++count; });
          EXPECT_TRUE(may_commit.wait_for(true)) << "nobody let it commit";
          return testing::Fault::none;
        }) {}

  [[nodiscard]] QueueStore& inbox() override { return inbox_; }

 private:
  testing::FaultInjectingQueueStore inbox_;
};

TEST_F(InboxRouterTest, AnInboxThatHangsInACommitHoldsUpNobodyWhenItsStoreLeaves) {
  RecordProperty("requirement", "IBX-096");
  Watched<int> commits;
  Watched<bool> may_commit{false};
  StoreSet stores(
      [this] { return listed_.get(); },
      [&](const StoreLocation&) { return std::make_unique<SlowToCommit>(commits, may_commit); },
      {.refresh_interval = std::chrono::hours{20}}, {.logger = logger_});
  listed_.change([](auto& all) { all = {{"acme", "1"}}; });
  stores.refresh();
  InboxRouter router(stores, {}, {logger_, observer(), clock_});
  auto stored = router.route("acme")->enqueue_future(message("a"));
  ASSERT_TRUE(commits.wait_for(1));
  listed_.change([](auto& all) { all = {{"bolt", "2"}}; });
  EXPECT_EQ(stores.refresh().removed, std::vector<std::string>{"acme"});
  EXPECT_NE(router.route("bolt"), nullptr);
  EXPECT_EQ(stored.wait_for(std::chrono::seconds{0}), std::future_status::timeout);
  may_commit.change([](bool& may) { may = true; });
  EXPECT_EQ(stored.get().status, EnqueueStatus::accepted) << "what it had taken is lost";
}

TEST_F(InboxRouterTest, WhatCannotBeMadeIsTriedAgain) {
  list({{"acme", "1"}});
  bool is_refused = true;
  InboxRouter router(stores_, {},
                     {.logger = logger_,
                      .observers = [&](const std::string& store) -> Observer& {
                        if (is_refused) throw Error(ErrorCode::internal, "no observer today");
                        return observers_[store];
                      },
                      .clock = clock_});
  expect_error(ErrorCode::internal, [&] { (void)router.route("acme"); });
  is_refused = false;
  EXPECT_NE(router.route("acme"), nullptr);
  is_refused = true;
  list({{"acme", "2"}});
  expect_error(ErrorCode::internal, [&] { (void)router.route("acme"); });
  list({});
  EXPECT_TRUE(stores_.names().empty());
}

TEST_F(InboxRouterTest, AStoreThatMovedGetsANewInbox) {
  list({{"acme", "1"}});
  InboxRouter router = make();
  const auto before = router.route("acme");
  list({{"acme", "2"}});
  const auto after = router.route("acme");
  EXPECT_NE(after, before);
  after->enqueue(message("a"));
  EXPECT_EQ(messages_in("acme"), 1U);
}

TEST_F(InboxRouterTest, LinesAndFiguresCarryTheNameOfTheStore) {
  RecordProperty("requirement", "IBX-113");
  std::ostringstream log;
  TextLogger logger(log, clock_, LogLevel::info);
  list({{"acme", "1"}, {"zenith", "2"}});
  {
    InboxRouter router(stores_, {}, {logger, observer(), clock_});
    router.route("acme")->enqueue(message("a"));
    router.route("zenith")->enqueue(message("b"));
  }
  EXPECT_NE(log.str().find("store=acme topic=order.created source=shop message_id=a"),
            std::string::npos);
  EXPECT_NE(log.str().find("store=zenith topic=order.created source=shop message_id=b"),
            std::string::npos);
  EXPECT_EQ(observers_["acme"].enqueued, 1);
  EXPECT_EQ(observers_["zenith"].enqueued, 1);
}

TEST_F(InboxRouterTest, OneTracerHearsOfWhatIsEnqueuedInEveryStore) {
  testing::SpanRecord spans;
  list({{"acme", "1"}, {"zenith", "2"}});
  InboxRouter router(stores_, {}, {.tracer = &spans});
  router.route("acme")->enqueue(message("a"));
  router.route("zenith")->enqueue(message("b"));
  const auto enqueues = spans.spans_of(SpanOperation::enqueue);
  ASSERT_EQ(enqueues.size(), 2U);
  EXPECT_EQ(enqueues[0].fields.at("message_id"), "a");
  EXPECT_EQ(enqueues[1].fields.at("message_id"), "b");
}

TEST_F(InboxRouterTest, ByHashAKeyAlwaysLeadsToTheSameStore) {
  RecordProperty("requirement", "IBX-091");
  list({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  InboxRouter router = make(Routing::by_hash);
  for (int i = 0; i < 30; ++i) router.route(i)->enqueue(message(std::to_string(i)));
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(router.route(i)->enqueue(message(std::to_string(i))).status,
              EnqueueStatus::duplicate);
  }
  EXPECT_EQ(messages_in("a") + messages_in("b") + messages_in("c"), 30U);
  expect_error(ErrorCode::invalid_argument, [&] { (void)router.route(" "); });
}

TEST_F(InboxRouterTest, ByHashKeysOfAStoreThatIsDownWaitForIt) {
  list({{"a", "1"}, {"b", "2"}});
  InboxRouter router = make(Routing::by_hash);
  std::string key_of_b = "0";
  const std::vector<std::string> names{"a", "b"};
  for (int i = 0; choose_by_hash(key_of_b, names) != "b"; ++i) key_of_b = std::to_string(i);
  list({{"a", "1"}, {"b", "down"}});
  expect_error(ErrorCode::unavailable, [&] { (void)router.route(key_of_b); });
  list({});
  expect_error(ErrorCode::not_found, [&] { (void)router.route(key_of_b); });
}

TEST_F(InboxRouterTest, NoKeyIsRoutedWronglyWhileNoDiscoveryHasSucceeded) {
  std::atomic<bool> is_broken = true;
  StoreSet stores(
      [&]() -> std::vector<StoreLocation> {
        if (is_broken) throw Error(ErrorCode::unavailable, "no list today");
        return {{"b", "2"}, {"c", "3"}};
      },
      [](const StoreLocation&) { return std::make_unique<memory::MemoryStore>(); },
      {.always = {{"a", "1"}},
       .refresh_interval = std::chrono::hours{20},
       .first_retry = std::chrono::hours{20},
       .max_retry = std::chrono::hours{20}},
      {.logger = logger_});
  InboxRouter by_hash(stores, {.routing = Routing::by_hash}, {logger_, observer(), clock_});
  InboxRouter by_name(stores, {}, {logger_, observer(), clock_});
  for (int key = 0; key < 20; ++key) {
    expect_error(ErrorCode::unavailable, [&] { (void)by_hash.route(key); });
  }
  EXPECT_NE(by_name.route("a"), nullptr);
  expect_error(ErrorCode::unavailable, [&] { (void)by_name.route("b"); });

  is_broken = false;
  stores.refresh();
  const std::vector<std::string> names{"a", "b", "c"};
  std::map<std::string, std::size_t> counts;
  for (int key = 0; key < 20; ++key) {
    const std::string store(choose_by_hash(std::to_string(key), names));
    by_hash.route(key)->enqueue(message(std::to_string(key)));
    EXPECT_EQ(stores.find(store)->store().inbox_operator().count({}), ++counts[store]);
  }
  EXPECT_NE(by_name.route("b"), nullptr);
  expect_error(ErrorCode::not_found, [&] { (void)by_name.route("d"); });
}

TEST(ChooseByHash, NeverChangesBetweenVersions) {
  const std::vector<std::string> names{"eu-1", "eu-2", "us-1", "us-2"};
  std::string chosen;
  for (const char* key : {"acme", "zenith", "42", "ünïcödé", "a", "b"}) {
    chosen += std::string(choose_by_hash(key, names)) + " ";
  }
  EXPECT_EQ(chosen, "us-2 us-1 us-1 eu-2 us-1 eu-1 ");
}

TEST(ChooseByHash, SpreadsKeysEvenlyAndAddingOneMovesItsShareOnly) {
  constexpr int kKeys = 20'000;
  std::vector<std::string> names;
  for (int i = 0; i < 9; ++i) names.push_back("store-" + std::to_string(i));
  std::vector<std::string> more = names;
  more.emplace_back("store-9");
  std::map<std::string, int> counts;
  int moved = 0;
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = "tenant-" + std::to_string(i);
    const std::string_view before = choose_by_hash(key, names);
    const std::string_view after = choose_by_hash(key, more);
    ++counts[std::string(before)];
    if (after == before) continue;
    ++moved;
    EXPECT_EQ(after, "store-9") << "keys move to the new one only";
  }
  for (const auto& [name, count] : counts) EXPECT_NEAR(count, kKeys / 9, kKeys / 90) << name;
  EXPECT_NEAR(moved, kKeys / 10, kKeys / 100);
}

TEST(ChooseByHash, DoesNotDependOnTheOrderOfTheNames) {
  const std::vector<std::string> names{"a", "b", "c", "d"};
  const std::vector<std::string> turned{"d", "b", "a", "c"};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(choose_by_hash(std::to_string(i), names), choose_by_hash(std::to_string(i), turned));
  }
}

}  // namespace
}  // namespace oncebox
