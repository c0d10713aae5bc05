// Which call to which store begins next: named cases, and random operations against a model.

#include "oncebox/engine/call_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace oncebox::engine {
namespace {

using std::chrono::seconds;
using Known = CallEnded::Store;

constexpr SteadyTime kPlanStart{std::chrono::hours{1}};
constexpr std::array kKinds{CallKind::settle, CallKind::keep, CallKind::call};

/// Limits that are never reached.
constexpr CallLimits kAmple{.per_server = 100, .in_all = 100};

/// A plan with lanes "a0", "a1", "b0" …, of which the first letter is the server.
class Driven {
 public:
  explicit Driven(const CallLimits& limits, CallPlan::Chooser* chooser = nullptr)
      : plan_(limits, chooser) {}
  ~Driven() {
    end_all();
    plan_.drop();
    for (auto& [name, lane] : lanes_) {
      plan_.unpost(lane);
      plan_.remove(lane);
    }
  }
  Driven(const Driven&) = delete;
  Driven& operator=(const Driven&) = delete;

  CallPlan::Lane& lane(const std::string& name, std::size_t width = 1) {
    const auto [place, is_new] = lanes_.try_emplace(name);
    if (is_new) plan_.add(place->second, name.substr(0, 1), width);
    return place->second;
  }
  void want(const std::string& name, CallKind kind = CallKind::call) {
    plan_.want(lane(name), kind);
  }
  void post(const std::string& name, int calls = 1) {
    for (int i = 0; i < calls; ++i) EXPECT_TRUE(plan_.post(lane(name, 100)));
  }
  /// The lane whose call begins; "-" for none.
  std::string begin() {
    auto slot = std::make_unique<CallPlan::Slot>();
    if (!plan_.begin_next(*slot, now)) return "-";
    const std::string name = name_of(slot->lane());
    running_.push_back({name, std::move(slot)});
    return name;
  }
  [[nodiscard]] std::string name_of(const CallPlan::Lane& lane) const {
    return std::ranges::find_if(lanes_, [&](const auto& known) { return &known.second == &lane; })
        ->first;
  }
  /// All that may begin now, one after the other.
  std::string begin_all() {
    std::string all;
    for (std::string one = begin(); one != "-"; one = begin())
      all += (all.empty() ? "" : " ") + one;
    return all;
  }
  [[nodiscard]] CallKind last_kind() const { return running_.back().second->kind(); }
  /// The oldest call under way to this lane.
  void end(const std::string& name, const CallEnded& ended = {}) {
    const auto found =
        std::ranges::find_if(running_, [&](const auto& call) { return call.first == name; });
    ASSERT_NE(found, running_.end()) << name;
    plan_.end(*found->second, ended);
    running_.erase(found);
  }
  void end_all() {
    while (!running_.empty()) end(std::string(running_.front().first));
  }
  CallPlan& plan() { return plan_; }

  SteadyTime now = kPlanStart;

 private:
  CallPlan plan_;
  std::map<std::string, CallPlan::Lane> lanes_;
  std::deque<std::pair<std::string, std::unique_ptr<CallPlan::Slot>>> running_;
};

/// Chooses the first of its favourites that may be chosen.
class NamedChooser final : public CallPlan::Chooser {
 public:
  void on_ready(CallPlan::Lane& lane) noexcept override { ready += driven->name_of(lane) + " "; }
  CallPlan::Lane* choose() noexcept override {
    ++asked;
    for (const std::string& name : favourites) {
      CallPlan::Lane& lane = driven->lane(name);
      if (driven->plan().may_choose(lane)) return &lane;
    }
    return nullptr;
  }

  Driven* driven = nullptr;
  std::vector<std::string> favourites;
  std::string ready;
  int asked = 0;
};

TEST(CallPlanTest, SettlingGoesBeforeKeepingAndKeepingBeforeTheRest) {
  Driven driven(kAmple);
  driven.want("a0", CallKind::call);
  driven.want("b0", CallKind::keep);
  driven.want("c0", CallKind::settle);
  EXPECT_EQ(driven.begin_all(), "c0 b0 a0");
}

TEST(CallPlanTest, TheKindsOfOneStoreRunBesideEachOtherAndEachOnlyOnce) {
  Driven driven(kAmple);
  for (int i = 0; i < 2; ++i) {
    for (const CallKind kind : kKinds) driven.want("a0", kind);
    EXPECT_EQ(driven.begin_all(), i == 0 ? "a0 a0 a0" : "");
  }
  driven.end("a0");
  EXPECT_EQ(driven.begin(), "a0") << "it was wanted once more while it ran";
  EXPECT_EQ(driven.last_kind(), CallKind::settle);
  EXPECT_EQ(driven.begin(), "-");
}

TEST(CallPlanTest, WantedTwiceIsWantedOnce) {
  Driven driven(kAmple);
  driven.want("a0");
  driven.want("a0");
  EXPECT_EQ(driven.begin(), "a0");
  driven.end_all();
  EXPECT_EQ(driven.begin(), "-");
}

TEST(CallPlanTest, WhatIsNoLongerWantedDoesNotBegin) {
  Driven driven(kAmple);
  driven.want("a0");
  driven.plan().want_at(driven.lane("a1"), CallKind::call, kPlanStart);
  driven.plan().unwant(driven.lane("a0"), CallKind::call);
  driven.plan().unwant(driven.lane("a1"), CallKind::call);
  EXPECT_EQ(driven.begin(), "-");
  EXPECT_EQ(driven.plan().next_change(), SteadyTime::max());
}

TEST(CallPlanTest, ATimeComesAndTheEarlierOfTwoCounts) {
  Driven driven(kAmple);
  CallPlan::Lane& lane = driven.lane("a0");
  for (const int at : {5, 3, 4})
    driven.plan().want_at(lane, CallKind::call, kPlanStart + seconds{at});
  EXPECT_EQ(driven.begin(), "-");
  EXPECT_EQ(driven.plan().next_change(), kPlanStart + seconds{3});
  driven.now += seconds{3};
  EXPECT_EQ(driven.begin(), "a0");
  driven.end("a0", {.again = driven.now + seconds{7}});
  EXPECT_EQ(driven.plan().next_change(), kPlanStart + seconds{10});
  driven.want("a0");
  EXPECT_EQ(driven.begin(), "a0") << "wanted now is sooner";
  driven.end("a0");
  EXPECT_EQ(driven.plan().next_change(), SteadyTime::max());
}

TEST(CallPlanTest, ServersTakeTurnsAndOnEachItsLanes) {
  Driven driven({.per_server = 1, .in_all = 1});
  driven.post("a0", 4);
  driven.post("a1", 2);
  driven.post("b0", 3);
  std::string order;
  for (std::string one = driven.begin(); one != "-"; one = driven.begin()) {
    order += one + " ";
    driven.end_all();
  }
  EXPECT_EQ(order, "a0 b0 a1 b0 a0 b0 a1 a0 a0 ");
}

TEST(CallPlanTest, AServerThatHangsTakesItsOwnCallsOnly) {
  Driven driven({.per_server = 2, .in_all = 3, .hangs_after = seconds{5}});
  for (const char* name : {"a0", "a1", "a2", "b0", "b1"}) driven.want(name);
  EXPECT_EQ(driven.begin_all(), "a0 b0 a1");
  EXPECT_EQ(driven.plan().next_change(), kPlanStart + seconds{5});
  driven.end("b0");
  EXPECT_EQ(driven.begin_all(), "b1");
  driven.end("b1");
  driven.now += seconds{5};
  for (const char* name : {"b0", "b1", "c0", "c1"}) driven.want(name);
  EXPECT_EQ(driven.begin_all(), "b0 c0 b1") << "what hangs has left the calls of all";
}

TEST(CallPlanTest, AStoreLeavesCallsOfItsServerToOthers) {
  Driven driven({.per_server = 4, .kept_for_idle_stores = 1, .in_all = 100});
  driven.post("a0", 10);
  EXPECT_EQ(driven.begin_all(), "a0 a0 a0");
  driven.post("a1", 2);
  EXPECT_EQ(driven.begin_all(), "a1");
  driven.end("a1");
  EXPECT_EQ(driven.begin_all(), "a1");
}

TEST(CallPlanTest, AStoreThatHangsDoesNotKeepItselfFromSettling) {
  Driven driven({.per_server = 2, .kept_for_idle_stores = 1, .in_all = 100});
  driven.post("a0", 2);
  EXPECT_EQ(driven.begin_all(), "a0");
  driven.want("a0", CallKind::settle);
  EXPECT_EQ(driven.begin_all(), "a0");
  EXPECT_EQ(driven.last_kind(), CallKind::settle);
}

TEST(CallPlanTest, TheLastCallsAreForServersThatHaveNone) {
  Driven driven({.per_server = 10, .in_all = 4, .kept_for_idle_servers = 1});
  driven.post("a0", 10);
  EXPECT_EQ(driven.begin_all(), "a0 a0 a0");
  driven.post("b0", 10);
  EXPECT_EQ(driven.begin_all(), "b0");
}

TEST(CallPlanTest, ServersInTroubleHaveHalfTogetherBesideTheOthers) {
  Driven driven({.per_server = 4, .in_all = 4});
  for (const char* name : {"a0", "b0"}) {
    driven.want(name);
    EXPECT_EQ(driven.begin(), name);
    driven.end(name, {.store = Known::failed});
  }
  for (const char* name : {"a1", "a2", "b1", "b2"}) driven.want(name);
  EXPECT_EQ(driven.begin_all(), "a1 b1");
  driven.post("c0", 10);
  EXPECT_EQ(driven.begin_all(), "c0 c0 c0 c0");
  driven.end("a1");  // it succeeded: the server is well, and those that are have four already
  EXPECT_EQ(driven.begin_all(), "b2");
  driven.end("c0");
  EXPECT_EQ(driven.begin_all(), "a2");
}

TEST(CallPlanTest, StoresInTroubleHaveHalfOfTheCallsOfTheirServer) {
  Driven driven({.per_server = 4, .in_all = 100});
  for (const char* name : {"a0", "a1", "a2"}) {
    driven.want(name);
    EXPECT_EQ(driven.begin(), name);
    driven.end(name, {.store = Known::failed});
  }
  for (const char* name : {"a0", "a1", "a2"}) driven.want(name);
  EXPECT_EQ(driven.begin_all(), "a0 a1");
  driven.want("a3");
  EXPECT_EQ(driven.begin_all(), "a3");
  driven.end("a0");
  EXPECT_EQ(driven.begin_all(), "a2");
}

TEST(CallPlanTest, ACallThatHangsKeepsTroubleWhateverOthersOfTheServerDo) {
  Driven driven({.per_server = 4, .in_all = 2, .hangs_after = seconds{5}});
  driven.want("a0");
  EXPECT_EQ(driven.begin_all(), "a0");
  driven.now += seconds{5};
  for (const char* name : {"a1", "a2"}) driven.want(name);
  EXPECT_EQ(driven.begin_all(), "a1") << "in trouble: half of two";
  driven.end("a1");
  driven.want("a1");
  EXPECT_EQ(driven.begin_all(), "a2") << "one succeeded, and the first one still hangs";
  driven.end("a0");
  driven.end("a2");
  driven.want("a2");
  EXPECT_EQ(driven.begin_all(), "a1 a2");
}

TEST(CallPlanTest, ACallThatTellsNothingLeavesTroubleAsItIs) {
  Driven driven({.per_server = 4, .in_all = 2});
  for (const Known known : {Known::failed, Known::unknown}) {
    driven.want("a0");
    EXPECT_EQ(driven.begin_all(), "a0");
    driven.end("a0", {.store = known});
  }
  for (const char* name : {"a0", "a1"}) driven.want(name);
  EXPECT_EQ(driven.begin_all(), "a0");
}

TEST(CallPlanTest, AWidthMayChangeMeanwhile) {
  Driven driven(kAmple);
  driven.lane("a0", 2);
  for (int i = 0; i < 5; ++i) driven.plan().post(driven.lane("a0"));
  EXPECT_EQ(driven.begin_all(), "a0 a0");
  driven.plan().set_width(driven.lane("a0"), 1);
  driven.end("a0");
  EXPECT_EQ(driven.begin_all(), "");
  driven.plan().set_width(driven.lane("a0"), 3);
  EXPECT_EQ(driven.begin_all(), "a0 a0");
}

TEST(CallPlanTest, AStopLetsBeginWhatWaitsWithoutLimitsAndNothingElse) {
  Driven driven({.per_server = 1, .in_all = 1});
  driven.post("a0", 3);
  driven.want("a1", CallKind::keep);
  driven.plan().want_at(driven.lane("b0"), CallKind::call, kPlanStart + seconds{1});
  driven.plan().stop();
  EXPECT_FALSE(driven.plan().post(driven.lane("a0")));
  driven.want("b1");
  driven.now += seconds{1};
  EXPECT_EQ(driven.begin_all(), "a1 a0 a0 a0");
  driven.end("a0", {.again = driven.now});
  EXPECT_EQ(driven.begin(), "-");
  EXPECT_EQ(driven.plan().next_change(), SteadyTime::max());
}

TEST(CallPlanTest, AfterADropNothingBegins) {
  Driven driven(kAmple);
  driven.post("a0", 3);
  driven.plan().drop();
  EXPECT_FALSE(driven.plan().has_next());
  EXPECT_EQ(driven.begin(), "-");
}

// Random operations -----------------------------------------------------------------------------

TEST(CallPlanTest, AChooserDecidesWhichStoreOfAServerIsCalled) {
  NamedChooser chooser;
  Driven driven({.per_server = 2}, &chooser);
  chooser.driven = &driven;
  for (const char* name : {"a0", "a1", "a2", "b0"}) driven.want(name);
  EXPECT_EQ(chooser.ready, "a0 a1 a2 b0 ");
  chooser.favourites = {"a2", "b0", "a1"};
  EXPECT_EQ(driven.begin(), "a2");
  EXPECT_EQ(driven.begin(), "b0") << "servers take turns";
  EXPECT_EQ(driven.begin(), "a1");
  EXPECT_EQ(driven.begin(), "-") << "the server has no call to spare";
  driven.end("a1");
  EXPECT_EQ(driven.begin(), "-") << "it is not among the favourites";
  EXPECT_FALSE(driven.plan().has_next());
  EXPECT_EQ(driven.plan().next_change(), SteadyTime::max());
}

TEST(CallPlanTest, AChooserThatWantsNoneIsAskedAgainWhenSomethingChanges) {
  NamedChooser chooser;
  Driven driven({.per_server = 2}, &chooser);
  chooser.driven = &driven;
  driven.want("a0");
  driven.want("b0", CallKind::keep);
  EXPECT_EQ(driven.begin_all(), "b0") << "only calls of the kind `call` are chosen";
  const int asked = chooser.asked;
  EXPECT_EQ(driven.begin(), "-");
  EXPECT_EQ(chooser.asked, asked) << "nothing has changed";
  driven.plan().reconsider();
  EXPECT_TRUE(driven.plan().has_next());
  EXPECT_EQ(driven.begin(), "-");
  EXPECT_EQ(chooser.asked, asked + 1);
  driven.want("a1");
  EXPECT_EQ(driven.begin(), "-");
  EXPECT_EQ(chooser.asked, asked + 2) << "a call is wanted on its server";
  driven.want("a1", CallKind::settle);
  EXPECT_EQ(driven.begin(), "a1");
  driven.end("a1");
  EXPECT_EQ(driven.begin(), "-");
  EXPECT_EQ(chooser.asked, asked + 3) << "a call has ended on its server";
}

TEST(CallPlanTest, AChooserMayNotChooseAStoreInTroubleBeyondItsShare) {
  NamedChooser chooser;
  chooser.favourites = {"a0", "a1", "a2"};
  Driven driven({.per_server = 2}, &chooser);
  chooser.driven = &driven;
  for (const char* name : {"a0", "a1"}) {
    driven.want(name);
    EXPECT_EQ(driven.begin(), name);
    driven.end(name, {.store = Known::failed});
  }
  for (const char* name : {"a0", "a1", "a2"}) driven.want(name);
  EXPECT_EQ(driven.begin_all(), "a0 a2") << "stores in trouble have half of the calls";
}

TEST(CallPlanTest, AStoreIsReadyAgainAfterItsCallWhenOneWasWantedMeanwhile) {
  NamedChooser chooser;
  chooser.favourites = {"a0"};
  Driven driven(kAmple, &chooser);
  chooser.driven = &driven;
  driven.want("a0");
  EXPECT_EQ(driven.begin(), "a0");
  driven.want("a0");
  EXPECT_EQ(chooser.ready, "a0 ") << "one is under way";
  driven.end("a0");
  EXPECT_EQ(chooser.ready, "a0 a0 ");
  EXPECT_EQ(driven.begin(), "a0");
}

TEST(CallPlanTest, AStopBeginsWhatIsWantedWithoutAskingTheChooser) {
  NamedChooser chooser;
  Driven driven({.per_server = 1}, &chooser);
  chooser.driven = &driven;
  driven.want("a0");
  driven.want("a1");
  EXPECT_EQ(driven.begin(), "-");
  driven.plan().stop();
  EXPECT_EQ(driven.begin_all(), "a0 a1");
}

/// The rules once more, as a list of calls that is counted anew each time.
struct PlanModel {
  struct Call {
    int server;
    int lane;
    CallKind kind;
    bool is_posted;
    SteadyTime began;
    bool hangs = false;
  };
  struct Lane {
    int server;
    std::size_t width;
    std::size_t posted = 0;
    bool has_failed = false;
    std::array<bool, kCallKinds> wanted{};
    std::array<SteadyTime, kCallKinds> at{SteadyTime::max(), SteadyTime::max(), SteadyTime::max()};
  };

  CallLimits limits;
  std::vector<Lane> lanes = {};
  std::map<int, bool> server_failed = {};
  std::vector<Call> calls = {};
  bool is_stopped = false;

  template <class Which>
  [[nodiscard]] std::size_t count(Which which) const {
    return static_cast<std::size_t>(std::ranges::count_if(calls, which));
  }
  [[nodiscard]] bool is_server_in_trouble(int server) const {
    return server_failed.at(server) ||
           count([&](const Call& c) { return c.server == server && c.hangs; }) > 0;
  }
  [[nodiscard]] bool is_lane_in_trouble(int lane) const {
    return lanes.at(static_cast<std::size_t>(lane)).has_failed ||
           count([&](const Call& c) { return c.lane == lane && c.hangs; }) > 0;
  }
  [[nodiscard]] std::size_t running(bool in_trouble) const {
    return count(
        [&](const Call& c) { return !c.hangs && is_server_in_trouble(c.server) == in_trouble; });
  }
  void note_time(SteadyTime now) {
    for (Lane& lane : lanes) {
      for (std::size_t kind = 0; kind < kCallKinds && !is_stopped; ++kind) {
        if (lane.at.at(kind) > now) continue;
        lane.at.at(kind) = SteadyTime::max();
        lane.wanted.at(kind) = true;
      }
    }
    for (Call& call : calls) call.hangs |= now - call.began >= *limits.hangs_after;
  }
  [[nodiscard]] bool is_ready(int number, CallKind kind) const {
    const Lane& lane = lanes.at(static_cast<std::size_t>(number));
    const auto index = static_cast<std::size_t>(kind);
    const bool is_call = kind == CallKind::call;
    const std::size_t now =
        count([&](const Call& c) { return c.lane == number && c.kind == kind; });
    return (lane.wanted.at(index) || (is_call && lane.posted > 0)) &&
           now < (is_call ? lane.width : 1);
  }
  [[nodiscard]] bool may_begin(int number, CallKind kind) const {
    if (!is_ready(number, kind)) return false;
    if (is_stopped) return true;
    const int server = lanes.at(static_cast<std::size_t>(number)).server;
    const std::size_t on_server = count([&](const Call& c) { return c.server == server; });
    const std::size_t on_lane = count([&](const Call& c) { return c.lane == number; });
    const std::size_t on_bad_lanes =
        count([&](const Call& c) { return c.server == server && is_lane_in_trouble(c.lane); });
    const std::size_t half = std::max<std::size_t>(limits.in_all / 2, 1);
    const std::size_t kept =
        on_lane > 0 && kind == CallKind::call ? limits.kept_for_idle_stores : 0;
    const std::size_t kept_in_all = on_server > 0 ? limits.kept_for_idle_servers : 0;
    if (on_server >= limits.per_server || on_server + kept >= limits.per_server) return false;
    if (running(true) + running(false) >= limits.in_all + half) return false;
    if (is_lane_in_trouble(number) &&
        on_bad_lanes >= std::max<std::size_t>(limits.per_server / 2, 1)) {
      return false;
    }
    return is_server_in_trouble(server) ? running(true) < half
                                        : running(false) + kept_in_all < limits.in_all;
  }
  [[nodiscard]] bool may_any_begin(CallKind kind) const {
    for (int lane = 0; lane < static_cast<int>(lanes.size()); ++lane) {
      if (may_begin(lane, kind)) return true;
    }
    return false;
  }
};

class RandomRun {
 public:
  explicit RandomRun(unsigned seed) : random_(seed), plan_(limits()) {
    model_.limits = limits_;
    const int servers = pick(1, 4);
    for (int lane = pick(1, 10); lane > 0; --lane) {
      const int server = pick(1, servers);
      model_.lanes.push_back({server, static_cast<std::size_t>(pick(1, 4))});
      model_.server_failed[server] = false;
      plan_.add(lanes_.emplace_back(), std::to_string(server), model_.lanes.back().width);
    }
  }
  ~RandomRun() {
    for (CallPlan::Lane& lane : lanes_) plan_.remove(lane);
  }
  RandomRun(const RandomRun&) = delete;
  RandomRun& operator=(const RandomRun&) = delete;

  void step() {
    const int what = pick(0, 99);
    if (what < 15) return want();
    if (what < 25) return want_at();
    if (what < 28) return unwant();
    if (what < 43) return post();
    if (what < 46) return set_width();
    if (what < 72) return (void)begin();
    if (what < 95) return end();
    now_ += Duration{pick(1, 400)};
  }

  /// Everything that is wanted begins, and ends: nothing was forgotten.
  void run_out() {
    for (int i = 0; i < 10'000; ++i) {
      const bool has_begun = begin();
      if (!has_begun && slots_.empty()) {
        if (plan_.next_change() == SteadyTime::max()) break;
        now_ = plan_.next_change();
      }
      if (!has_begun && !slots_.empty()) end_one(0, {});
    }
    EXPECT_TRUE(slots_.empty());
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      EXPECT_EQ(model_.lanes[lane].posted, 0U);
      EXPECT_TRUE(lanes_[lane].is_quiet());
      for (const CallKind kind : kKinds) {
        EXPECT_FALSE(model_.is_ready(static_cast<int>(lane), kind)) << "forgotten";
        if (!model_.is_stopped) {
          EXPECT_EQ(model_.lanes[lane].at[static_cast<std::size_t>(kind)], SteadyTime::max());
        }
      }
    }
  }
  void stop() {
    plan_.stop();
    model_.is_stopped = true;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  std::size_t pick_size(int low, int high) { return static_cast<std::size_t>(pick(low, high)); }
  CallKind pick_kind() { return kKinds.at(pick_size(0, 2)); }
  std::size_t pick_lane() { return pick_size(0, static_cast<int>(lanes_.size()) - 1); }

  const CallLimits& limits() {
    limits_.per_server = pick_size(1, 6);
    limits_.kept_for_idle_stores = pick_size(0, static_cast<int>(limits_.per_server) - 1);
    limits_.in_all = pick_size(1, 8);
    limits_.kept_for_idle_servers = pick_size(0, static_cast<int>(limits_.in_all) - 1);
    limits_.hangs_after = Duration{pick(100, 1'000)};
    return limits_;
  }

  void want() {
    const std::size_t lane = pick_lane();
    const CallKind kind = pick_kind();
    plan_.want(lanes_[lane], kind);
    model_.lanes[lane].wanted[static_cast<std::size_t>(kind)] = true;
    model_.lanes[lane].at[static_cast<std::size_t>(kind)] = SteadyTime::max();
  }
  void want_at() { note_want_at(pick_lane(), pick_kind(), now_ + Duration{pick(-50, 500)}, true); }
  void note_want_at(std::size_t lane, CallKind kind, SteadyTime at, bool tell) {
    if (tell) plan_.want_at(lanes_[lane], kind, at);
    const auto index = static_cast<std::size_t>(kind);
    if (model_.lanes[lane].wanted[index] || model_.is_stopped) return;
    SteadyTime& earliest = model_.lanes[lane].at[index];
    model_.lanes[lane].wanted[index] = at <= noted_;
    earliest = at <= noted_ ? SteadyTime::max() : std::min(earliest, at);
  }
  void unwant() {
    const std::size_t lane = pick_lane();
    const CallKind kind = pick_kind();
    plan_.unwant(lanes_[lane], kind);
    model_.lanes[lane].wanted[static_cast<std::size_t>(kind)] = false;
    model_.lanes[lane].at[static_cast<std::size_t>(kind)] = SteadyTime::max();
  }
  void post() {
    const std::size_t lane = pick_lane();
    EXPECT_TRUE(plan_.post(lanes_[lane]));
    ++model_.lanes[lane].posted;
  }
  void set_width() {
    const std::size_t lane = pick_lane();
    model_.lanes[lane].width = pick_size(1, 4);
    plan_.set_width(lanes_[lane], model_.lanes[lane].width);
  }

  bool begin() {
    noted_ = now_;
    model_.note_time(now_);
    auto slot = std::make_unique<CallPlan::Slot>();
    if (!plan_.begin_next(*slot, now_)) {
      for (const CallKind kind : kKinds) EXPECT_FALSE(model_.may_any_begin(kind)) << "held up";
      EXPECT_FALSE(plan_.has_next());
      EXPECT_GT(plan_.next_change(), now_);
      return false;
    }
    const auto found = std::ranges::find_if(
        lanes_, [&](const CallPlan::Lane& lane) { return &lane == &slot->lane(); });
    const auto lane = static_cast<std::size_t>(found - lanes_.begin());
    const int number = static_cast<int>(lane);
    for (const CallKind kind : kKinds) {
      EXPECT_FALSE(kind < slot->kind() && model_.may_any_begin(kind)) << "another goes first";
    }
    EXPECT_TRUE(model_.may_begin(number, slot->kind()))
        << "a limit was passed, or nobody wanted it";
    if (slot->is_posted()) {
      --model_.lanes[lane].posted;
    } else {
      model_.lanes[lane].wanted[static_cast<std::size_t>(slot->kind())] = false;
    }
    model_.calls.push_back(
        {model_.lanes[lane].server, number, slot->kind(), slot->is_posted(), now_});
    slots_.push_back(std::move(slot));
    EXPECT_TRUE(model_.is_stopped ||
                model_.running(true) + model_.running(false) <=
                    limits_.in_all + std::max<std::size_t>(limits_.in_all / 2, 1));
    return true;
  }
  void end() {
    if (slots_.empty()) return;
    CallEnded ended{
        .store = std::array{Known::is_well, Known::failed, Known::unknown}.at(pick_size(0, 2))};
    if (pick(0, 2) == 0) ended.again = now_ + Duration{pick(0, 300)};
    end_one(pick_size(0, static_cast<int>(slots_.size()) - 1), ended);
  }
  void end_one(std::size_t at, const CallEnded& ended) {
    const PlanModel::Call call = model_.calls[at];
    const auto lane = static_cast<std::size_t>(call.lane);
    model_.calls.erase(model_.calls.begin() + static_cast<std::ptrdiff_t>(at));
    if (ended.store != Known::unknown) {
      const bool failed = ended.store == Known::failed;
      model_.lanes[lane].has_failed = model_.server_failed[call.server] = failed;
    }
    if (!call.is_posted) note_want_at(lane, call.kind, ended.again, false);
    plan_.end(*slots_[at], ended);
    slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  std::mt19937 random_;
  CallLimits limits_{.per_server = 1, .in_all = 1};
  PlanModel model_{.limits = limits_};
  CallPlan plan_;
  std::deque<CallPlan::Lane> lanes_;
  std::vector<std::unique_ptr<CallPlan::Slot>> slots_;  // in the order of `PlanModel::calls`
  SteadyTime now_ = kPlanStart;
  SteadyTime noted_{};  // what the plan was told last
};

TEST(CallPlanTest, RandomOperationsKeepTheRules) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    RandomRun run(seed);
    for (int step = 0; step < 300; ++step) run.step();
    if (seed % 2 == 0) run.stop();
    run.run_out();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace oncebox::engine
