#include "world.hpp"

#include <algorithm>

namespace oncebox::simulation {

namespace {

constexpr std::size_t kLinesKept = 80;
/// One step in so many, a little time passes though there is something to do: threads are slow.
constexpr std::size_t kStallsOneIn = 50;
constexpr Duration kLongestStall{5};

}  // namespace

World::World(std::uint64_t seed) : random_(seed), start_(clock_.now()) {}
World::~World() = default;

std::shared_ptr<Actor> World::add(Actor actor) {
  actors_.push_back(std::make_shared<Actor>(std::move(actor)));
  ++changes_;
  return actors_.back();
}

void World::spawn(std::string name, std::function<void()> body) {
  auto actor = std::make_shared<Actor>(Actor{.name = std::move(name), .act = {}});
  actor->act = [body = std::move(body), self = actor.get()] {
    self->is_over = true;
    body();
    return true;
  };
  actors_.push_back(std::move(actor));
  ++changes_;
}

// The turns -------------------------------------------------------------------------------------

void World::note_change() {
  ++changes_;
  ++steps_;
}

bool World::is_ready(const Running& running) const {
  return running.wakes_at <= clock_.steady() || (running.condition && running.condition());
}

bool World::step() {
  if (random_.one_in(kStallsOneIn)) advance(random_.between(Duration{1}, kLongestStall));
  std::erase_if(actors_, [](const auto& actor) { return actor->is_over; });
  std::vector<Fibers::iterator> ready;
  for (auto at = running_.begin(); at != running_.end(); ++at) {
    if (is_ready(*at)) ready.push_back(at);
  }
  std::vector<std::shared_ptr<Actor>> willing;
  for (const auto& actor : actors_) {
    if (actor->busy < actor->width && actor->tried_at_change != changes_) willing.push_back(actor);
  }
  if (ready.empty() && willing.empty()) {
    for (const auto& check : checks_) check();
    return pass_time();
  }
  const std::size_t turn = random_.below(ready.size() + willing.size());
  if (turn < ready.size()) {
    resume(ready[turn]);
  } else {
    const auto& actor = willing[turn - ready.size()];
    begin(actor->name, actor, actor->act);
  }
  return true;
}

void World::begin(std::string name, std::shared_ptr<Actor> actor, std::function<bool()> body) {
  if (free_.empty()) free_.push_back(std::make_unique<Fiber>());
  running_.push_back({.fiber = std::move(free_.back()), .name = std::move(name), .actor = actor});
  free_.pop_back();
  const auto running = std::prev(running_.end());
  ++actor->busy;
  const std::uint64_t changes_before = changes_;
  current_ = &*running;
  running->fiber->start([this, &self = *running, body = std::move(body), changes_before] {
    const bool has_acted = body();
    if (self.has_slept) return;  // counted with every turn
    if (has_acted) {
      note_change();
    } else {
      self.actor->tried_at_change = changes_before;
    }
  });
  after_turn(running);
}

void World::resume(Fibers::iterator running) {
  running->condition = nullptr;
  current_ = &*running;
  running->fiber->resume();
  note_change();
  after_turn(running);
}

void World::after_turn(Fibers::iterator running) {
  current_ = nullptr;
  if (!running->fiber->has_ended()) return;
  --running->actor->busy;
  free_.push_back(std::move(running->fiber));
  running_.erase(running);
}

void World::suspend_until(SteadyTime time, std::function<bool()> condition) {
  Running& self = *current_;
  self.wakes_at = time;
  self.condition = std::move(condition);
  if (!std::exchange(self.has_slept, true)) note_change();
  self.fiber->suspend();
}

World::Work& World::work() { return current_->work; }

void World::pass(Duration pause) { suspend_until(clock_.steady() + pause, {}); }

bool World::pass(Duration pause, const std::stop_token& stop) {
  suspend_until(clock_.steady() + pause, [stop] { return stop.stop_requested(); });
  return !stop.stop_requested();
}

bool World::wait(Duration at_most, const std::function<bool()>& condition) {
  if (!condition()) suspend_until(clock_.steady() + at_most, condition);
  return condition();
}

// The time --------------------------------------------------------------------------------------

bool World::pass_time() {
  const SteadyTime now = clock_.steady();
  SteadyTime next = SteadyTime::max();
  for (const Running& running : running_) next = std::min(next, running.wakes_at);
  for (const auto& actor : actors_) {
    // One that has come already waits for something else.
    const SteadyTime change = actor->next_change();
    if (change > now) next = std::min(next, change);
  }
  if (next == SteadyTime::max()) return false;
  advance(std::max(std::chrono::ceil<Duration>(next - now), Duration{1}));
  return true;
}

void World::advance(Duration by) {
  clock_.advance(by);
  ++changes_;
}

// What is said of it ----------------------------------------------------------------------------

void World::add_line(std::string line) {
  std::string dated = fmt::format("{:>8} {:<10} {}", elapsed().count(),
                                  current_ == nullptr ? "" : current_->name, line);
  for (const char c : dated) {  // FNV-1a
    fingerprint_ = (fingerprint_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  lines_.push_back(std::move(dated));
  if (lines_.size() > kLinesKept) lines_.pop_front();
}

void World::add_violation(std::string text) {
  add_line("broken: " + text);
  if (!violation_) violation_ = std::move(text);
}

}  // namespace oncebox::simulation
