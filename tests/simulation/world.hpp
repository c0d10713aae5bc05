#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "fiber.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/testing/manual_clock.hpp"
#include "random.hpp"

namespace oncebox::simulation {

/// Stands for a pool of threads that have the same work: as long as fewer than `width` are in the
/// middle of it, the world lets one more try.
struct Actor {
  std::string name;
  std::size_t width = 1;
  /// Does the next thing that there is to do; false, and nothing happened, when there is none.
  /// Runs in a fiber, so it may sleep.
  std::function<bool()> act;
  /// When the time alone may give it something to do.
  std::function<SteadyTime()> next_change = [] { return SteadyTime::max(); };

  // Of the world.
  std::size_t busy = 0;
  std::uint64_t tried_at_change = 0;
  bool is_over = false;
};

/// One thread, on which everything that goes on at the same time takes turns by the chances of a
/// seed; and the time, which passes when nothing is left to do, and now and then before.
class World {
 public:
  explicit World(std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] Random& random() noexcept { return random_; }
  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
  [[nodiscard]] Duration elapsed() const { return clock_.now() - start_; }

  /// It takes part until `is_over`, which it sets itself; then it lives on while it is busy.
  std::shared_ptr<Actor> add(Actor actor);
  /// Runs once, in a fiber of its own.
  void spawn(std::string name, std::function<void()> body);

  // For a fiber: so much time passes, and the others go on meanwhile, if only for a moment.
  void pass(Duration pause);
  /// Ends early when the token is requested; answers whether it was not.
  bool pass(Duration pause, const std::stop_token& stop);
  /// Answers whether the condition came true in time.
  bool wait(Duration at_most, const std::function<bool()>& condition);

  /// What is kept for the fiber that runs, from the beginning of its work to the end.
  struct Work {
    bool has_called = false;  ///< a store
    bool has_failed = false;  ///< the last call
    std::string call = {};    ///< of the store, the last one
    std::string store = {};
  };
  [[nodiscard]] Work& work();

  /// Called whenever nothing is left to do at this time.
  void on_quiet(std::function<void()> check) { checks_.push_back(std::move(check)); }

  /// Lets one go on. False when nothing is left to do, ever.
  bool step();
  /// Turns in which something happened.
  [[nodiscard]] std::size_t steps() const noexcept { return steps_; }
  [[nodiscard]] std::size_t fibers_under_way() const noexcept { return running_.size(); }

  template <class... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    add_line(fmt::format(format, std::forward<Args>(args)...));
  }
  /// The rule is broken: the run is over. The first one counts.
  template <class... Args>
  void violate(fmt::format_string<Args...> format, Args&&... args) {
    add_violation(fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] const std::optional<std::string>& violation() const noexcept { return violation_; }

  /// Two runs that did the same have the same.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  [[nodiscard]] const std::deque<std::string>& last_lines() const noexcept { return lines_; }

 private:
  /// A fiber with something under way.
  struct Running {
    std::unique_ptr<Fiber> fiber;
    std::string name;
    std::shared_ptr<Actor> actor;  ///< null: spawned
    SteadyTime wakes_at{};
    std::function<bool()> condition = {};  ///< wakes it earlier; asked when something changed
    bool has_slept = false;
    Work work = {};
  };
  using Fibers = std::list<Running>;

  void begin(std::string name, std::shared_ptr<Actor> actor, std::function<bool()> body);
  void resume(Fibers::iterator running);
  void after_turn(Fibers::iterator running);
  void note_change();
  void suspend_until(SteadyTime time, std::function<bool()> condition);
  [[nodiscard]] bool is_ready(const Running& running) const;
  bool pass_time();
  void advance(Duration by);
  void add_line(std::string line);
  void add_violation(std::string text);

  Random random_;
  testing::ManualClock clock_;
  const TimePoint start_;
  std::list<std::shared_ptr<Actor>> actors_;
  Fibers running_;
  std::vector<std::unique_ptr<Fiber>> free_;
  Running* current_ = nullptr;
  std::uint64_t changes_ = 1;
  std::size_t steps_ = 0;
  std::vector<std::function<void()>> checks_;
  std::optional<std::string> violation_;
  std::uint64_t fingerprint_ = 0xcbf29ce484222325;
  std::deque<std::string> lines_;
};

}  // namespace oncebox::simulation
