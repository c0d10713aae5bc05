// Many stores in one process, which come and go.

#include "oncebox/fleet/store_set.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "expect_error.hpp"
#include "failing_allocations.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "watched.hpp"

namespace oncebox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Duration kNever = std::chrono::hours{20};

/// Databases that a test starts and stops, and the place that lists them.
class World {
 public:
  void list(std::vector<StoreLocation> locations) {
    listed_.change([&](auto& all) { all = std::move(locations); });
  }
  void break_listing(bool broken) { listing_is_broken_ = broken; }
  void stop(const std::string& url) {
    down_.change([&](auto& urls) { urls.insert(url); });
  }
  void start(const std::string& url) {
    down_.change([&](auto& urls) { urls.erase(url); });
  }
  /// From now on this URL is neither opened nor refused, until `release`.
  void hang(const std::string& url) {
    hanging_.change([&](auto& urls) { urls.insert(url); });
  }
  void release() {
    hanging_.change([](auto& urls) { urls.clear(); });
  }

  [[nodiscard]] StoreDiscovery discovery() {
    return [this] {
      discoveries.change([](int& count) { ++count; });
      if (listing_is_broken_) throw Error(ErrorCode::unavailable, "no list today");
      return listed_.get();
    };
  }
  [[nodiscard]] OpenStore open() {
    return [this](const StoreLocation& location) {
      opens.change([&](auto& urls) { ++urls[location.url]; });
      const auto is_free = [&](const auto& urls) { return !urls.contains(location.url); };
      EXPECT_TRUE(hanging_.wait(is_free)) << "nobody released " << location.name;
      if (down_.get().contains(location.url)) {
        throw Error(ErrorCode::unavailable, "nobody answers");
      }
      return std::make_unique<memory::MemoryStore>();
    };
  }
  /// How often this URL was opened, or tried.
  [[nodiscard]] int opens_of(const std::string& url) const { return opens.get()[url]; }
  [[nodiscard]] int all_opens() const {
    int count = 0;
    for (const auto& [url, tried] : opens.get()) count += tried;
    return count;
  }

  Watched<int> discoveries;
  Watched<std::map<std::string, int>> opens;

 private:
  Watched<std::vector<StoreLocation>> listed_;
  Watched<std::set<std::string>> down_;
  Watched<std::set<std::string>> hanging_;
  std::atomic<bool> listing_is_broken_ = false;
};

/// What it heard, in order: "+a" for opened, "-a" for removed.
class NotingListener final : public StoreSetListener {
 public:
  void on_opened(const MemberStorePtr& member) noexcept override { note("+" + member->name()); }
  void on_removed(const MemberStorePtr& member) noexcept override { note("-" + member->name()); }

  Watched<std::vector<std::string>> heard;

 private:
  void note(std::string what) {
    heard.change([&](auto& all) { all.push_back(std::move(what)); });
  }
};

class StoreSetTest : public ::testing::Test {
 protected:
  [[nodiscard]] StoreSet make(const StoreSetOptions& options = {.refresh_interval = kNever,
                                                                .first_retry = kNever,
                                                                .max_retry = kNever}) {
    return {world_.discovery(), world_.open(), options, {.logger = logger_}};
  }
  [[nodiscard]] std::string logged() { return log_.str(); }

  World world_;
  std::ostringstream log_;
  SystemClock clock_;
  TextLogger logger_{log_, clock_, LogLevel::info};
};

TEST_F(StoreSetTest, EachDatabaseHasItsOwnStoreUnderItsName) {
  RecordProperty("requirement", "IBX-085,IBX-089");
  world_.list({{"b", "url-b"}, {"a", "url-a"}});
  const StoreSet stores = make();
  EXPECT_THAT(stores.names(), ElementsAre("a", "b"));
  ASSERT_EQ(stores.members().size(), 2U);
  EXPECT_EQ(stores.find("a")->name(), "a");
  EXPECT_NE(&stores.find("a")->store(), &stores.find("b")->store());
  expect_error(ErrorCode::not_found, [&] { (void)stores.find("c"); });
}

TEST_F(StoreSetTest, WhatIsAlwaysThereDoesNotWaitForADiscovery) {
  RecordProperty("requirement", "IBX-085");
  world_.break_listing(true);
  world_.list({{"b", "url-b"}});
  StoreSet stores = make({.always = {{"a", "url-a"}}, .refresh_interval = kNever});
  EXPECT_THAT(stores.names(), ElementsAre("a"));
  EXPECT_EQ(stores.find("a")->name(), "a");
  EXPECT_EQ(stores.discovery_health().status, HealthStatus::unavailable);
  world_.break_listing(false);
  stores.refresh();
  EXPECT_THAT(stores.names(), ElementsAre("a", "b"));
  world_.break_listing(true);
  expect_error(ErrorCode::unavailable, [&] { stores.refresh(); });
  EXPECT_THAT(stores.names(), ElementsAre("a", "b"));
  EXPECT_EQ(world_.opens_of("url-a"), 1);
}

TEST_F(StoreSetTest, WhatIsNotKnownIsUnavailableUntilADiscoveryHasSucceeded) {
  world_.break_listing(true);
  world_.list({{"b", "url-b"}});
  StoreSet stores = make({.always = {{"a", "url-a"}},
                          .refresh_interval = kNever,
                          .first_retry = kNever,
                          .max_retry = kNever});
  EXPECT_EQ(stores.find("a")->name(), "a");
  EXPECT_THAT(expect_error(ErrorCode::unavailable, [&] { (void)stores.find("b"); }),
              HasSubstr("no discovery has succeeded"));
  expect_error(ErrorCode::unavailable, [&] { stores.require_discovered(); });
  world_.break_listing(false);
  stores.refresh();
  EXPECT_EQ(stores.find("b")->name(), "b");
  stores.require_discovered();
  world_.break_listing(true);
  expect_error(ErrorCode::unavailable, [&] { stores.refresh(); });
  stores.require_discovered();
  expect_error(ErrorCode::not_found, [&] { (void)stores.find("c"); });
}

TEST_F(StoreSetTest, NobodySeesAPartOfAChange) {
  const std::vector<StoreLocation> few{{"a", "u"}};
  const std::vector<StoreLocation> many{{"a", "u"}, {"b", "u"}, {"c", "u"}, {"d", "u"}};
  world_.list(few);
  StoreSet stores = make();
  const std::jthread reader([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const std::size_t count = stores.names().size();
      if (count != few.size() && count != many.size()) ADD_FAILURE() << count << " names";
    }
  });
  for (int i = 0; i < 200; ++i) {
    world_.list(i % 2 == 0 ? many : few);
    stores.refresh();
  }
}

TEST_F(StoreSetTest, AStaticSetStaysAsItIs) {
  RecordProperty("requirement", "IBX-085");
  StoreSet stores(std::vector<StoreLocation>{{"a", "url-a"}}, world_.open(), {},
                  {.logger = logger_});
  const MemberStorePtr before = stores.find("a");
  EXPECT_EQ(stores.refresh(), RefreshResult{});
  EXPECT_EQ(stores.find("a"), before);
  EXPECT_EQ(world_.opens_of("url-a"), 1);
}

TEST_F(StoreSetTest, NamesAreCheckedBeforeAnythingIsOpened) {
  const auto make_static = [&](std::vector<StoreLocation> locations) {
    const StoreSet stores(std::move(locations), world_.open(), {}, {.logger = logger_});
  };
  for (const std::string& name :
       std::vector<std::string>{"", "a b", "a/b", "ä", std::string(65, 'a')}) {
    expect_error(ErrorCode::invalid_argument, [&] { make_static({{name, "url"}}); });
  }
  expect_error(ErrorCode::invalid_argument, [&] { make_static({{"a", "1"}, {"a", "2"}}); });
  EXPECT_TRUE(world_.opens.get().empty());
}

TEST_F(StoreSetTest, NewOnesAppearGoneOnesLeaveAndTheOthersStay) {
  RecordProperty("requirement", "IBX-095,IBX-096,IBX-097");
  world_.list({{"kept", "k"}, {"gone", "g"}});
  StoreSet stores = make();
  const MemberStorePtr kept = stores.find("kept");
  world_.list({{"kept", "k"}, {"new", "n"}});
  const RefreshResult result = stores.refresh();
  EXPECT_THAT(result.added, ElementsAre("new"));
  EXPECT_THAT(result.removed, ElementsAre("gone"));
  EXPECT_THAT(result.reopened, IsEmpty());
  EXPECT_THAT(stores.names(), ElementsAre("kept", "new"));
  EXPECT_EQ(stores.find("kept"), kept);
  EXPECT_EQ(world_.opens_of("k"), 1);
}

TEST_F(StoreSetTest, OneThatMovedIsOpenedAnew) {
  RecordProperty("requirement", "IBX-097");
  world_.list({{"a", "old"}});
  StoreSet stores = make();
  const MemberStorePtr before = stores.find("a");
  world_.list({{"a", "new"}});
  EXPECT_THAT(stores.refresh().reopened, ElementsAre("a"));
  EXPECT_NE(stores.find("a"), before);
  EXPECT_EQ(world_.opens_of("new"), 1);
}

TEST_F(StoreSetTest, OneThatMovedToWhereNobodyAnswersIsNotServedFromItsOldPlace) {
  world_.list({{"a", "old"}});
  StoreSet stores = make();
  world_.stop("new");
  world_.list({{"a", "new"}});
  EXPECT_THAT(stores.refresh().down, ElementsAre("a"));
  expect_error(ErrorCode::unavailable, [&] { (void)stores.find("a"); });
}

TEST_F(StoreSetTest, WhoHoldsAStoreThatWasRemovedCanFinishWithIt) {
  RecordProperty("requirement", "IBX-096");
  world_.list({{"a", "a"}});
  StoreSet stores = make();
  MemberStorePtr held = stores.find("a");
  world_.list({});
  stores.refresh();
  expect_error(ErrorCode::not_found, [&] { (void)stores.find("a"); });
  EXPECT_EQ(held->store().health().status, HealthStatus::healthy);
  while (held.use_count() > 1) std::this_thread::yield();  // it is closed by the last holder
}

TEST_F(StoreSetTest, ADiscoveryThatFailsKeepsTheLastGoodSetAndSaysSo) {
  RecordProperty("requirement", "IBX-093");
  world_.list({{"a", "a"}});
  StoreSet stores = make();
  const MemberStorePtr before = stores.find("a");
  world_.break_listing(true);
  expect_error(ErrorCode::unavailable, [&] { stores.refresh(); });
  EXPECT_EQ(stores.find("a"), before);
  EXPECT_EQ(stores.health().discovery.status, HealthStatus::degraded);
  EXPECT_THAT(stores.health().discovery.detail, HasSubstr("no list today"));
  EXPECT_THAT(logged(), HasSubstr("warning discovery failed, the stores stay as they are"));

  world_.break_listing(false);
  world_.list({{"a", "a"}, {"a", "b"}});
  expect_error(ErrorCode::invalid_argument, [&] { stores.refresh(); });
  EXPECT_EQ(stores.find("a"), before);

  world_.list({{"a", "a"}});
  stores.refresh();
  EXPECT_EQ(stores.health().discovery.status, HealthStatus::healthy);
}

TEST_F(StoreSetTest, AFirstDiscoveryThatFailsComesAgainSoon) {
  world_.break_listing(true);
  world_.list({{"a", "a"}});
  const auto listener = std::make_shared<NotingListener>();
  StoreSet stores =
      make({.refresh_interval = kNever, .first_retry = Duration{1}, .max_retry = Duration{1}});
  stores.listen(listener);
  EXPECT_THAT(stores.names(), IsEmpty());
  EXPECT_EQ(stores.health().discovery.status, HealthStatus::unavailable);
  world_.break_listing(false);
  EXPECT_TRUE(listener->heard.wait_for({"+a"}));
}

TEST_F(StoreSetTest, DiscoveryRunsPeriodically) {
  RecordProperty("requirement", "IBX-093");
  const StoreSet stores = make({.refresh_interval = Duration{1}});
  EXPECT_TRUE(world_.discoveries.wait([](int count) { return count >= 5; }));
}

TEST_F(StoreSetTest, DiscoveryRunsEveryFiveMinutesByDefault) {
  RecordProperty("requirement", "IBX-094");
  EXPECT_EQ(StoreSetOptions{}.refresh_interval, std::chrono::minutes{5});
  testing::ManualClock clock;
  const StoreSet stores(world_.discovery(), world_.open(), {}, {.logger = logger_, .clock = clock});
  EXPECT_EQ(world_.discoveries.get(), 1);
  clock.advance(std::chrono::minutes{5});
  EXPECT_TRUE(world_.discoveries.wait_for(2));
}

TEST_F(StoreSetTest, OneThatIsDownStandsInNobodysWay) {
  world_.list({{"a", "a"}, {"b", "b"}});
  world_.stop("a");
  StoreSet stores = make();
  EXPECT_EQ(stores.find("b")->name(), "b");
  expect_error(ErrorCode::unavailable, [&] { (void)stores.find("a"); });
  const StoreSetHealth health = stores.health();
  ASSERT_EQ(health.members.size(), 2U);
  EXPECT_EQ(health.members[0].name, "a");
  EXPECT_EQ(health.members[0].health.status, HealthStatus::unavailable);
  EXPECT_EQ(health.members[0].health.detail, "nobody answers");
  EXPECT_EQ(health.members[1].health.status, HealthStatus::healthy);
  EXPECT_THAT(logged(), HasSubstr("warning store cannot be opened, will be tried again store=a"));
  world_.start("a");
  EXPECT_EQ(stores.refresh(), RefreshResult{}) << "who asks need not wait for the next attempt";
  EXPECT_EQ(stores.find("a")->name(), "a");
}

TEST_F(StoreSetTest, WhateverGoesWrongWhenOneIsOpenedConcernsThatOneOnly) {
  const StoreSet stores(
      std::vector<StoreLocation>{{"fine", ""}, {"none", ""}, {"number", ""}, {"text", ""}},
      [](const StoreLocation& location) -> std::unique_ptr<Store> {
        if (location.name == "none") return nullptr;
        if (location.name == "number") throw 42;
        if (location.name == "text") throw std::runtime_error("so it is");
        return std::make_unique<memory::MemoryStore>();
      },
      {}, {.logger = logger_});
  EXPECT_EQ(stores.members().size(), 1U);
  for (const char* name : {"none", "number", "text"}) {
    expect_error(ErrorCode::unavailable, [&] { (void)stores.find(name); });
  }
}

TEST_F(StoreSetTest, WhatThereWasNoMemoryForIsOpenedWithTheNextRefresh) {
  RecordProperty("requirement", "IBX-096");
  const std::vector<StoreLocation> all{{"a", "url-a"}, {"b", "db://one/b"}, {"c", "db://two/c"}};
  bool has_failed = true;
  for (int n = 0; has_failed; ++n) {
    world_.list({});
    StoreSet stores = make();
    world_.list(all);
    has_failed = false;
    try {
      const FailingAllocation failing(n);
      has_failed = !stores.refresh().down.empty();
    } catch (const std::exception&) {
      has_failed = true;
    }
    EXPECT_TRUE(stores.refresh().down.empty()) << "allocation " << n << " failed before";
    EXPECT_EQ(stores.members().size(), 3U);
  }
}

TEST_F(StoreSetTest, OneThatIsDownIsTriedAgainByItself) {
  world_.list({{"a", "a"}});
  world_.stop("a");
  const auto listener = std::make_shared<NotingListener>();
  StoreSet stores =
      make({.refresh_interval = kNever, .first_retry = Duration{1}, .max_retry = Duration{4}});
  stores.listen(listener);
  EXPECT_TRUE(world_.opens.wait([](const auto& opens) { return opens.at("a") >= 4; }));
  world_.start("a");
  EXPECT_TRUE(listener->heard.wait_for({"+a"}));
  EXPECT_EQ(world_.discoveries.get(), 1);
}

TEST_F(StoreSetTest, OneThatIsDownIsTriedAgainByTheClockOfTheSet) {
  world_.list({{"a", "a"}});
  world_.stop("a");
  testing::ManualClock clock;
  const auto listener = std::make_shared<NotingListener>();
  StoreSet stores(world_.discovery(), world_.open(),
                  {.refresh_interval = kNever, .first_retry = std::chrono::minutes{1}},
                  {.logger = logger_, .clock = clock});
  stores.listen(listener);
  world_.start("a");
  clock.advance(std::chrono::minutes{1});
  EXPECT_TRUE(listener->heard.wait_for({"+a"}));
  EXPECT_EQ(world_.opens_of("a"), 2);
}

TEST_F(StoreSetTest, OneThatStaysDownIsTriedEverMoreRarelyUpToALimit) {
  world_.list({{"a", "a"}});
  world_.stop("a");
  {
    const StoreSet stores =
        make({.refresh_interval = kNever, .first_retry = Duration{1}, .max_retry = Duration{4}});
    EXPECT_TRUE(world_.opens.wait([](const auto& opens) { return opens.at("a") >= 5; }));
  }
  std::vector<std::string> pauses;
  const std::string log = logged();
  const std::string name = "pause_ms=";
  for (std::size_t at = log.find(name); at != log.npos; at = log.find(name, at + 1)) {
    const std::size_t begin = at + name.size();
    pauses.push_back(log.substr(begin, log.find_first_of(" \n", begin) - begin));
  }
  ASSERT_GE(pauses.size(), 5U);
  pauses.resize(5);
  EXPECT_THAT(pauses, ElementsAre("1", "2", "4", "4", "4"));
}

TEST_F(StoreSetTest, SlowOnesAreOpenedBesideEachOther) {
  std::vector<StoreLocation> locations;
  for (int i = 0; i < 8; ++i) locations.push_back({"s" + std::to_string(i), "url"});
  Watched<int> opening;
  const StoreSet stores(locations,
                        [&](const StoreLocation&) {
                          opening.change([](int& count) { ++count; });
                          EXPECT_TRUE(opening.wait([](int count) { return count == 8; }))
                              << "one after the other";
                          return std::make_unique<memory::MemoryStore>();
                        },
                        {.parallel_opens = 8}, {.logger = logger_});
  EXPECT_EQ(stores.members().size(), 8U);
}

StoreSetOptions no_patience() {
  return {.refresh_interval = kNever,
          .first_retry = kNever,
          .max_retry = kNever,
          .open_wait = Duration{0}};
}

TEST_F(StoreSetTest, OneThatHangsHoldsUpNeitherTheStartNorDiscoveryNorTheOthers) {
  world_.list({{"fine", "db://one/fine"}, {"hangs", "db://two/hangs"}});
  world_.hang("db://two/hangs");
  const auto listener = std::make_shared<NotingListener>();
  StoreSet stores = make(no_patience());
  stores.listen(listener);
  EXPECT_TRUE(listener->heard.wait_for({"+fine"}));
  EXPECT_THAT(expect_error(ErrorCode::unavailable, [&] { (void)stores.find("hangs"); }),
              HasSubstr("it is being opened"));

  world_.list({{"fine", "db://one/fine"}, {"hangs", "db://two/hangs"}, {"new", "db://one/new"}});
  const RefreshResult result = stores.refresh();
  EXPECT_THAT(result.added, ElementsAre("new"));
  EXPECT_THAT(result.down, ::testing::Contains("hangs"));
  EXPECT_TRUE(listener->heard.wait_for({"+fine", "+new"}));
  EXPECT_EQ(world_.opens_of("db://two/hangs"), 1) << "it is being opened already";
  world_.release();
  EXPECT_TRUE(listener->heard.wait_for({"+fine", "+new", "+hangs"}));
}

TEST_F(StoreSetTest, WhatLeavesOrMovesWhileItIsOpenedIsNotServedFromThere) {
  world_.list({{"gone", "db://one/gone"}, {"moved", "db://one/old"}});
  world_.hang("db://one/gone");
  world_.hang("db://one/old");
  const auto listener = std::make_shared<NotingListener>();
  StoreSet stores = make(no_patience());
  stores.listen(listener);
  ASSERT_TRUE(world_.opens.wait([](const auto& opens) { return opens.size() == 2; }));
  world_.list({{"moved", "db://two/new"}});
  EXPECT_THAT(stores.refresh().removed, ElementsAre("gone"));
  ASSERT_TRUE(listener->heard.wait_for({"+moved"}));
  const MemberStorePtr moved = stores.find("moved");
  EXPECT_EQ(moved->server(), "db://two");
  world_.release();
  world_.list({{"last", "db://one/last"}, {"moved", "db://two/new"}});
  stores.refresh();
  ASSERT_TRUE(listener->heard.wait_for({"+moved", "+last"}));
  EXPECT_EQ(stores.find("moved"), moved);
  expect_error(ErrorCode::not_found, [&] { (void)stores.find("gone"); });
}

TEST_F(StoreSetTest, OfAServerThatDoesNotAnswerOneStoreIsTriedForAll) {
  std::vector<StoreLocation> all{{"fine", "db://one/fine"}};
  for (int i = 0; i < 20; ++i) {
    const std::string url = "db://silent/" + std::to_string(i);
    all.push_back({"s" + std::to_string(i), url});
    world_.stop(url);
  }
  world_.list(all);
  const StoreSetOptions options{.refresh_interval = kNever,
                                .first_retry = kNever,
                                .max_retry = kNever,
                                .parallel_opens = 1,
                                .slow_open = Duration{0}};
  StoreSet stores = make(options);
  EXPECT_EQ(stores.find("fine")->name(), "fine");
  EXPECT_EQ(world_.all_opens(), 2);
  for (const MemberState& state : stores.states()) {
    EXPECT_EQ(state.failure, state.name == "fine" ? "" : "nobody answers") << state.name;
  }
  for (const StoreLocation& location : all) world_.start(location.url);
  EXPECT_THAT(stores.refresh().down, IsEmpty());
  EXPECT_EQ(stores.members().size(), all.size());
}

TEST_F(StoreSetTest, ASilentServerIsTriedByOneAtATime) {
  std::vector<StoreLocation> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back({"s" + std::to_string(i), "db://silent/" + std::to_string(i)});
    world_.stop(all.back().url);
  }
  world_.list(all);
  StoreSet stores = make({.refresh_interval = kNever,
                          .first_retry = kNever,
                          .max_retry = kNever,
                          .parallel_opens = 8,
                          .slow_open = Duration{0}});
  const int before = world_.all_opens();
  EXPECT_LE(before, 8) << "those that began before the first had failed";
  EXPECT_EQ(stores.refresh().down.size(), all.size());
  EXPECT_EQ(world_.all_opens(), before + 1);
}

TEST_F(StoreSetTest, WhatWasNotTriedGoesFirstTheNextTime) {
  world_.list({{"a", "db://one/a"}, {"b", "db://one/b"}, {"c", "db://one/c"}});
  world_.stop("db://one/a");
  StoreSet stores = make({.refresh_interval = kNever,
                          .first_retry = kNever,
                          .max_retry = kNever,
                          .parallel_opens = 1,
                          .slow_open = Duration{0}});
  EXPECT_EQ(stores.members().size(), 0U);
  EXPECT_THAT(stores.refresh().down, ElementsAre("a")) << "it keeps the others from nothing";
}

TEST_F(StoreSetTest, AFailureThatComesQuicklyOrOfAFileConcernsOneStoreOnly) {
  for (const auto& [place, slow] :
       {std::pair<std::string, Duration>("db://one/", kNever), {"file:", Duration{0}}}) {
    world_.list({{"a", place + "a"}, {"b", place + "b"}, {"c", place + "c"}});
    world_.stop(place + "a");
    StoreSet stores = make({.refresh_interval = kNever,
                            .first_retry = kNever,
                            .max_retry = kNever,
                            .parallel_opens = 1,
                            .slow_open = slow});
    EXPECT_EQ(stores.members().size(), 2U) << place;
  }
}

/// Counts the lines that begin so.
class LineCounter final : public Logger {
 public:
  explicit LineCounter(std::string_view beginning) : beginning_(beginning) {}

  [[nodiscard]] bool enabled(LogLevel) const noexcept override { return true; }
  void write(LogLevel, std::string_view text, std::span<const LogField>) noexcept override {
    if (text.starts_with(beginning_)) lines.change([](int& count) { ++count; });
  }

  Watched<int> lines;

 private:
  const std::string_view beginning_;
};

TEST_F(StoreSetTest, AtTheEndNothingMoreIsOpened) {
  LineCounter no_longer_waiting("stores take long to open");
  auto stores = std::make_unique<StoreSet>(
      world_.discovery(), world_.open(),
      StoreSetOptions{.refresh_interval = Duration{1}, .parallel_opens = 2, .open_wait = kNever},
      Surroundings{.logger = no_longer_waiting});
  std::vector<StoreLocation> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back({"s" + std::to_string(i), "url-" + std::to_string(i)});
    world_.hang(all.back().url);
  }
  world_.list(all);
  ASSERT_TRUE(world_.opens.wait([](const auto& opens) { return opens.size() == 2; }));
  std::jthread end([&] { stores.reset(); });
  EXPECT_TRUE(no_longer_waiting.lines.wait_for(1)) << "who refreshes waits on";
  world_.release();
  end.join();
  EXPECT_EQ(world_.all_opens(), 2);
}

/// Takes as long to close as somebody wants.
class SlowToClose final : public ForwardingStore {
 public:
  explicit SlowToClose(const Watched<bool>& may_close)
      : ForwardingStore(std::make_unique<memory::MemoryStore>()), may_close_(may_close) {}
  ~SlowToClose() override { EXPECT_TRUE(may_close_.wait_for(true)) << "nobody let it close"; }

 private:
  const Watched<bool>& may_close_;
};

TEST_F(StoreSetTest, OneThatHangsWhileItIsClosedHoldsUpNobody) {
  RecordProperty("requirement", "IBX-096");
  Watched<bool> may_close{false};
  world_.list({{"a", "a"}});
  StoreSet stores(world_.discovery(),
                  [&](const StoreLocation&) { return std::make_unique<SlowToClose>(may_close); },
                  {.refresh_interval = kNever}, {.logger = logger_});
  world_.list({{"b", "b"}});
  EXPECT_THAT(stores.refresh().removed, ElementsAre("a"));
  const auto listener = std::make_shared<NotingListener>();
  stores.listen(listener);
  EXPECT_THAT(listener->heard.get(), ElementsAre("+b"));
  may_close.change([](bool& may) { may = true; });
}

TEST_F(StoreSetTest, ThoseWhoAskAtTheSameTimeShareADiscovery) {
  RecordProperty("requirement", "IBX-093");
  LineCounter waiting("refresh asked for while one is under way");
  Watched<int> begun;
  Watched<bool> may_end{false};
  StoreSet stores(
      [&]() -> std::vector<StoreLocation> {
        int number = 0;
        begun.change([&](int& count) { number = ++count; });
        if (number == 2 && !may_end.wait_for(true)) ADD_FAILURE() << "nobody let it end";
        return {{"a", "a"}};
      },
      world_.open(), {.refresh_interval = kNever}, {.logger = waiting});
  {
    const std::jthread first([&] { stores.refresh(); });
    ASSERT_TRUE(begun.wait_for(2));
    std::vector<std::jthread> others;
    for (int i = 0; i < 10; ++i) {
      others.emplace_back([&] { stores.refresh(); });
    }
    ASSERT_TRUE(waiting.lines.wait_for(10));
    may_end.change([](bool& may) { may = true; });
  }
  EXPECT_EQ(begun.get(), 3) << "the first, the one that they waited for, and the one they shared";
}

TEST_F(StoreSetTest, WhatWasListedBeforeTheCallIsSeenByIt) {
  StoreSet stores = make();
  std::vector<std::jthread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) stores.refresh();
    });
  }
  for (int i = 0; i < 50; ++i) {
    const std::string name = "s" + std::to_string(i);
    world_.list({{name, "url"}});
    stores.refresh();
    EXPECT_EQ(stores.find(name)->name(), name);
  }
}

TEST_F(StoreSetTest, AListenerHearsWhatIsThereAndWhatChanges) {
  world_.list({{"a", "a"}, {"b", "b"}});
  StoreSet stores = make();
  const auto listener = std::make_shared<NotingListener>();
  auto forgotten = std::make_shared<NotingListener>();
  stores.listen(listener);
  stores.listen(forgotten);
  forgotten.reset();
  world_.list({{"b", "elsewhere"}, {"c", "c"}});
  stores.refresh();
  const std::vector<std::string> heard = listener->heard.get();
  EXPECT_EQ(std::vector(heard.begin(), heard.begin() + 2), (std::vector<std::string>{"+a", "+b"}));
  EXPECT_THAT(std::vector(heard.begin() + 2, heard.end()),
              ::testing::UnorderedElementsAre("-a", "-b", "+b", "+c"));
}

TEST_F(StoreSetTest, NoUrlIsShownAnywhere) {
  world_.list({{"a", "postgresql://me:secret@db"}, {"b", "redis://:secret@db"}});
  world_.stop("redis://:secret@db");
  StoreSet stores = make();
  world_.list({});
  stores.refresh();
  EXPECT_THAT(logged(), HasSubstr("store=a"));
  EXPECT_THAT(logged(), Not(HasSubstr("secret")));
}

TEST_F(StoreSetTest, OptionsThatMakeNoSenseAreRefused) {
  for (const StoreSetOptions& options :
       {StoreSetOptions{.refresh_interval = Duration{0}},
        StoreSetOptions{.first_retry = Duration{0}},
        StoreSetOptions{.first_retry = Duration{2}, .max_retry = Duration{1}},
        StoreSetOptions{.parallel_opens = 0}, StoreSetOptions{.open_wait = Duration{-1}},
        StoreSetOptions{.slow_open = Duration{-1}}}) {
    expect_error(ErrorCode::out_of_range, [&] { const StoreSet stores = make(options); });
  }
}

}  // namespace
}  // namespace oncebox
