// Every history of a claim cycle up to a depth, breadth-first: a model of a store, whose clock may
// differ from ours, and of a driver, which may be slow, against the cycle.
//
// Two things are checked in every state. The step that the cycle answers is the one that follows
// from the facts of the last claim (`expect_step`). And if nothing happens from here on, everything
// in the store is claimed as soon as it can be, with few looks (`expect_all_claimed`).

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <compare>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/engine/claim_cycle.hpp"

namespace oncebox::engine {
namespace {

using Do = ClaimCycle::Do;
using Claimed = ClaimCycle::Claimed;

// Times of the model are in milliseconds since its start, by our clock.
using Ms = int;
constexpr Ms kNever = 1'000'000;
constexpr Ms kTick = 10;
constexpr Ms kPoll = 40;
constexpr Ms kLongestPoll = 160;
constexpr Ms kLongestRest = 200;
constexpr Ms kFirstClockPause = 20;
constexpr TimePoint kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
constexpr SteadyTime kSteadyStart{std::chrono::hours{1}};

enum class Input {
  tick,
  wait_out,        // to the end of the wait
  step,            // of the driver: begin, ask, claim, or tell what was found
  claim,           // all these steps at once
  ready,           // a message comes, with news
  ready_silently,  // without: the store does not notify
  due,             // a message that is due later comes, with news
  retry,           // the same, told as a due time
  limited,         // a message comes whose topic has a limit, with news
  limit_fills,
  limit_eases,
  look,
  failure,  // of the call that the driver is about to make
};
const char* name_of(Input input) {
  constexpr const char* kNames[] = {
      "tick",  "wait_out", "step",        "claim",       "ready", "ready_silently", "due",
      "retry", "limited",  "limit_fills", "limit_eases", "look",  "failure"};
  return kNames[static_cast<int>(input)];
}

struct Config {
  std::vector<Input> inputs;
  int depth;
  Ms skew = 0;            // how far the store's clock is ahead of ours
  std::size_t limit = 2;  // messages in one claim
};

struct Message {
  Ms due;        // by the store's clock
  bool told;     // by news or as a due time
  bool limited;  // its topic has a limit
  auto operator<=>(const Message&) const = default;
};

/// The facts of the last claim and of what was told since it began, from which the next step
/// follows.
struct Facts {
  bool any = false;
  bool asked = false;
  bool failed = false;
  bool lacked_room = false;
  Claimed claimed = Claimed::nothing;
  std::optional<Ms> due = {};
  Ms began = 0;
  Ms ended = 0;
  bool news = false;
  bool look = false;
  bool eased = false;
  Ms told_due = kNever;
  int failures = 0;          // in a row
  bool due_is_late = false;  // it had come before the claim began
  int late_dues = 0;         // pauses in a row because of that
  int polls = 0;             // in a row, in vain
  auto operator<=>(const Facts&) const = default;
};

enum class Phase { idle, begun, asked, claimed };

struct World {
  ClaimCycle cycle{{.poll = Duration{kPoll},
                    .longest_poll = Duration{kLongestPoll},
                    .longest_rest = Duration{kLongestRest}}};
  Ms now = 0;
  std::vector<Message> messages = {};
  bool limit_is_full = false;
  Phase phase = Phase::idle;
  bool asks = false;
  bool lacks_room = false;
  std::optional<Ms> due = {};
  Claimed claimed = Claimed::nothing;
  Facts facts = {};
  auto operator<=>(const World&) const = default;
};

Ms ms_of(SteadyTime time) {
  return static_cast<Ms>(std::chrono::duration_cast<Duration>(time - kSteadyStart).count());
}

Ms doubled(Ms first, int times, Ms longest) {
  for (int i = 0; i < times && first < longest; ++i) first *= 2;
  return std::min(first, longest);
}

class Model {
 public:
  explicit Model(const Config& config) : config_(config) {}

  /// False when the input means nothing in this state.
  bool apply(World& world, Input input) const {
    Facts& facts = world.facts;
    switch (input) {
      case Input::tick:
        world.now += kTick;
        return true;
      case Input::wait_out:
        return wait_out(world);
      case Input::step:
        return drive(world);
      case Input::claim:
        if (world.phase != Phase::idle || !drive(world)) return false;
        while (world.phase != Phase::idle) drive(world);
        return true;
      case Input::ready:
      case Input::due:
      case Input::limited: {
        const Ms due = input == Input::due ? world.now + 3 * kTick : store_now(world);
        if (!add(world, {due, true, input == Input::limited})) return false;
        facts.news = true;
        world.cycle.on_news();
        return true;
      }
      case Input::ready_silently:
        return add(world, {store_now(world), false, false});
      case Input::retry: {
        const Ms due = world.now + 2 * kTick;
        if (!add(world, {due, true, false})) return false;
        facts.told_due = std::min(facts.told_due, due);
        world.cycle.on_due(kStart + Duration{due}, now(world));
        return true;
      }
      case Input::limit_fills:
        return !std::exchange(world.limit_is_full, true);
      case Input::limit_eases:
        world.limit_is_full = false;
        facts.eased = true;
        world.cycle.on_eased();
        return true;
      case Input::look:
        facts.look = true;
        world.cycle.on_look();
        return true;
      case Input::failure:
        return fail(world);
    }
    return false;
  }

  static ClaimCycle::Now now(const World& world) {
    return {kStart + Duration{world.now}, kSteadyStart + Duration{world.now}};
  }

  /// The driver does the next part of its work; false when it has to wait.
  bool drive(World& world) const {
    Facts& facts = world.facts;
    switch (world.phase) {
      case Phase::idle:
        return begin(world);
      case Phase::begun:
        if (world.asks) world.due = next_due(world);
        world.phase = Phase::asked;
        return true;
      case Phase::asked:
        claim(world);
        world.phase = Phase::claimed;
        return true;
      case Phase::claimed:
        world.cycle.found(
            {.claimed = world.claimed,
             .lacks_room = world.lacks_room,
             .due = world.due ? std::optional(kStart + Duration{*world.due}) : std::nullopt},
            now(world));
        end(world);
        facts.failures = 0;
        facts.claimed = world.claimed;
        facts.due = world.due;
        facts.lacked_room = world.lacks_room;
        if (world.claimed != Claimed::nothing) facts.polls = facts.late_dues = 0;
        facts.due_is_late = facts.due && *facts.due <= facts.began;
        if (waits(facts) && !facts.due_is_late) facts.late_dues = 0;
        world.due.reset();
        return true;
    }
    return false;
  }

  /// Whether the last claim is one after which it waits.
  static bool waits(const Facts& facts) {
    return facts.any && !facts.failed && facts.asked && facts.claimed == Claimed::nothing &&
           !facts.news && !facts.look && !(facts.eased && facts.lacked_room);
  }
  static Ms poll_at(const Facts& facts) {
    return facts.ended + doubled(kPoll, facts.polls, kLongestPoll);
  }
  static Ms clock_pause_end(const Facts& facts) {
    if (!facts.due_is_late) return kNever;
    return facts.ended + doubled(kFirstClockPause, facts.late_dues, kLongestPoll);
  }
  static Ms rest_end(const Facts& facts) {
    return facts.ended + doubled(100, facts.failures - 1, kLongestRest);
  }

 private:
  [[nodiscard]] Ms store_now(const World& world) const { return world.now + config_.skew; }

  static bool add(World& world, const Message& message) {
    if (world.messages.size() == 2) return false;
    world.messages.push_back(message);
    std::ranges::sort(world.messages);
    return true;
  }

  static bool wait_out(World& world) {
    const SteadyTime until = world.cycle.next(now(world).steady).until;
    if (until == SteadyTime::max()) return false;
    world.now = ms_of(until);
    return true;
  }

  static bool begin(World& world) {
    const ClaimCycle::Step step = world.cycle.next(now(world).steady);
    if (!step.claims()) return false;
    Facts& facts = world.facts;
    if (waits(facts) && world.now >= poll_at(facts)) ++facts.polls;
    if (waits(facts) && world.now >= clock_pause_end(facts)) ++facts.late_dues;
    facts.polls = std::min(facts.polls, 2);  // the longest
    facts.late_dues = std::min(facts.late_dues, 3);
    world.cycle.begin(step.what, now(world));
    world.phase = Phase::begun;
    world.asks = step.what == Do::ask_due_and_claim;
    world.lacks_room = world.limit_is_full;
    facts.began = world.now;
    facts.asked = world.asks;
    facts.news = facts.look = facts.eased = false;
    facts.told_due = kNever;
    return true;
  }

  static void end(World& world) {
    world.phase = Phase::idle;
    world.facts.any = true;
    world.facts.failed = false;
    world.facts.ended = world.now;
  }

  [[nodiscard]] std::optional<Ms> next_due(const World& world) const {
    std::optional<Ms> due;
    for (const Message& message : world.messages) {
      if (message.due > store_now(world)) due = std::min(due.value_or(kNever), message.due);
    }
    return due;
  }

  void claim(World& world) const {
    std::size_t taken = 0;
    std::erase_if(world.messages, [&](const Message& message) {
      const bool is_left = message.due > store_now(world) || taken == config_.limit ||
                           (message.limited && world.lacks_room);
      if (!is_left) ++taken;
      return !is_left;
    });
    world.claimed = taken == 0               ? Claimed::nothing
                    : taken == config_.limit ? Claimed::full
                                             : Claimed::some;
  }

  static bool fail(World& world) {
    if (world.phase != Phase::begun && world.phase != Phase::asked) return false;
    const Duration rest = world.cycle.failed(now(world));
    end(world);
    Facts& facts = world.facts;
    facts.failed = true;
    facts.failures = std::min(facts.failures + 1, 2);  // the longest
    world.due.reset();
    EXPECT_EQ(rest, facts.look ? Duration{0} : Duration{rest_end(facts) - world.now});
    return true;
  }

  const Config& config_;
};

// Checks ----------------------------------------------------------------------------------------

/// When a wait ends that began after the last claim.
Ms wait_end(const Facts& facts) {
  const Ms due = facts.due && !facts.due_is_late ? *facts.due : kNever;
  return std::min({Model::poll_at(facts), Model::clock_pause_end(facts), facts.told_due, due});
}

/// The steps that follow from the facts; one, but for what comes together with a look or an ease.
std::set<Do> expected_steps(const World& world) {
  const Facts& facts = world.facts;
  if (world.phase != Phase::idle) return {Do::wait};
  if (!facts.any) return {Do::claim};
  if (facts.failed) {
    if (!facts.look && world.now < Model::rest_end(facts)) return {Do::rest};
    return facts.look ? std::set{Do::claim, Do::ask_due_and_claim}
                      : std::set{Do::ask_due_and_claim};
  }
  if (Model::waits(facts)) {
    return {world.now < wait_end(facts) ? Do::wait : Do::ask_due_and_claim};
  }
  const bool expects_something = facts.news || facts.claimed == Claimed::full;
  if (facts.look || facts.eased) return {Do::claim, Do::ask_due_and_claim};
  return {expects_something ? Do::claim : Do::ask_due_and_claim};
}

void expect_step(const World& world) {
  const ClaimCycle::Step step = world.cycle.next(Model::now(world).steady);
  EXPECT_TRUE(expected_steps(world).contains(step.what)) << "not " << static_cast<int>(step.what);
  if (world.phase != Phase::idle) {
    EXPECT_EQ(step.until, SteadyTime::max());
  } else if (step.what == Do::rest) {
    EXPECT_EQ(ms_of(step.until), Model::rest_end(world.facts));
  } else if (step.what == Do::wait) {
    EXPECT_EQ(ms_of(step.until), wait_end(world.facts));
  }
}

/// Nothing happens any more but the time: each message is claimed when it can be.
void expect_all_claimed(World world, const Config& config) {
  const Model model(config);
  const Ms begin = world.now;
  const bool rests = world.cycle.next(Model::now(world).steady).what == Do::rest;
  const Ms may_begin = rests ? Model::rest_end(world.facts) : begin;
  const auto latest = [&](const Message& message) {
    const Ms claimable = message.due - config.skew;
    const Ms soonest = std::max({claimable, message.due, may_begin});
    // The pauses are as long as the clock is behind, and the first is given.
    const Ms behind = config.skew < 0 ? -config.skew + kFirstClockPause : 0;
    return message.told ? soonest + behind : soonest + kLongestPoll;
  };
  int looks = 0;
  const Ms end = begin + 800;
  while (world.now < end) {
    if (world.phase == Phase::idle) {
      const ClaimCycle::Step step = world.cycle.next(Model::now(world).steady);
      if (!step.claims()) {
        ASSERT_GT(ms_of(step.until), world.now);
        world.now = std::min(ms_of(step.until), end);
        continue;
      }
      ASSERT_LE(++looks, 24) << "a busy loop";
    }
    if (world.phase == Phase::asked) {
      for (const Message& message : world.messages) {
        if (message.limited && world.lacks_room) continue;
        ASSERT_LE(world.now, latest(message)) << "due " << message.due << " told " << message.told;
      }
    }
    model.drive(world);
  }
  for (const Message& message : world.messages) {
    EXPECT_TRUE(message.limited && world.limit_is_full) << "forgotten, due " << message.due;
  }
}

struct Node {
  World world;
  std::size_t parent;
  Input input;
};

std::string history_of(const std::vector<Node>& nodes, std::size_t at) {
  std::string text;
  for (; at != 0; at = nodes[at].parent) text = std::string(" ") + name_of(nodes[at].input) + text;
  return text;
}

/// Answers how many states there are.
std::size_t explore(const Config& config) {
  const Model model(config);
  std::vector<Node> nodes{{World{}, 0, Input::tick}};
  std::set<World> known{nodes[0].world};
  std::size_t level_end = 1;
  int depth = 0;
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    if (at == level_end) {
      ++depth;
      level_end = nodes.size();
    }
    expect_step(nodes[at].world);
    expect_all_claimed(nodes[at].world, config);
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "skew " << config.skew << ", after" << history_of(nodes, at);
      return nodes.size();
    }
    if (depth == config.depth) continue;
    for (const Input input : config.inputs) {
      World world = nodes[at].world;
      if (!model.apply(world, input) || !known.insert(world).second) continue;
      nodes.push_back({std::move(world), at, input});
    }
  }
  return nodes.size();
}

class ClaimCycleModelTest : public ::testing::TestWithParam<Ms> {};

TEST_P(ClaimCycleModelTest, NewsAndDueTimesAreClaimedAsSoonAsTheyCanBe) {
  EXPECT_GT(explore({.inputs = {Input::tick, Input::wait_out, Input::step, Input::claim,
                                Input::ready, Input::due, Input::retry},
                     .depth = 9,
                     .skew = GetParam()}),
            1'000U);
}

TEST_P(ClaimCycleModelTest, WhatNobodyAnnouncedIsFoundByPolls) {
  EXPECT_GT(explore({.inputs = {Input::tick, Input::wait_out, Input::step, Input::claim,
                                Input::ready_silently, Input::due},
                     .depth = 10,
                     .skew = GetParam(),
                     .limit = 1}),
            1'000U);
}

TEST_P(ClaimCycleModelTest, FailuresRestAndLooksEndTheRest) {
  EXPECT_GT(explore({.inputs = {Input::tick, Input::wait_out, Input::step, Input::claim,
                                Input::ready, Input::retry, Input::look, Input::failure},
                     .depth = 8,
                     .skew = GetParam()}),
            1'000U);
}

TEST_P(ClaimCycleModelTest, LimitsThatEaseAreNotMissed) {
  EXPECT_GT(
      explore({.inputs = {Input::tick, Input::wait_out, Input::step, Input::claim, Input::limited,
                          Input::due, Input::limit_fills, Input::limit_eases, Input::failure},
               .depth = 8,
               .skew = GetParam(),
               .limit = 1}),
      1'000U);
}

// The store's clock is behind ours, the same, or ahead.
INSTANTIATE_TEST_SUITE_P(Skews, ClaimCycleModelTest, ::testing::Values(-30, 0, 30));

}  // namespace
}  // namespace oncebox::engine
