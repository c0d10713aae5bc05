#include "scenario.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "fiber.hpp"
#include "ledger.hpp"
#include "process.hpp"
#include "world.hpp"

namespace oncebox::simulation {

namespace {

constexpr Duration kStorm = std::chrono::seconds{20};
/// Everything has an end by then: the longest handlers, leases, rests and retries, several times.
constexpr Duration kCalm = std::chrono::minutes{15};
constexpr std::size_t kMostSteps = 1'000'000;

class Scenario {
 public:
  Scenario(std::uint64_t seed, Planted planted)
      : planted_(planted), world_(seed), ledger_(world_), seed_(seed) {}

  Outcome run();

 private:
  void set_up();
  void send();
  void send_some();
  void disturb();
  void disturb_once();
  void set_weather(Weather::Kind kind);
  void calm_down();
  void restart(std::size_t process);
  void start(std::size_t process);
  void look_for_unfinished();

  [[nodiscard]] Backend& any_backend() {
    return *backends_[world_.random().below(backends_.size())];
  }

  const Planted planted_;
  World world_;
  Ledger ledger_;
  const std::uint64_t seed_;
  std::vector<std::string> servers_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Process>> stopped_;
  std::uint64_t last_owner_ = 0;
  std::size_t last_message_ = 0;
  bool is_over_ = false;
};

void Scenario::set_up() {
  Random& random = world_.random();
  const std::size_t servers = random.between(1, 3);
  for (std::size_t i = 0; i < servers; ++i) servers_.push_back("server-" + std::to_string(i));
  const std::size_t stores = random.between(1, 6);
  for (std::size_t i = 0; i < stores; ++i) {
    backends_.push_back(std::make_unique<Backend>("store-" + std::to_string(i),
                                                  servers_[random.below(servers)],
                                                  !random.one_in(3), world_.clock()));
  }
  processes_.resize(random.between(1, 2));
  for (std::size_t i = 0; i < processes_.size(); ++i) start(i);
  world_.on_quiet([this] {
    for (const auto& process : processes_) process->check();
  });
}

void Scenario::start(std::size_t process) {
  processes_[process] = std::make_unique<Process>(
      world_, ledger_, "process-" + std::to_string(last_owner_ + 1), last_owner_ + 1, planted_);
  ++last_owner_;
  for (const auto& backend : backends_) processes_[process]->open(*backend);
}

// The storm -------------------------------------------------------------------------------------

void Scenario::send() {
  while (world_.elapsed() < kStorm) {
    world_.pass(world_.random().between(Duration{0}, Duration{700}));
    send_some();
  }
}

void Scenario::send_some() {
  Random& random = world_.random();
  Backend& backend = any_backend();
  std::vector<Message> messages;
  const std::size_t count = random.one_in(8) ? random.between(10, 30) : random.between(1, 3);
  for (std::size_t i = 0; i < count; ++i) {
    // Now and then one comes again, perhaps with other content.
    const bool again = last_message_ > 0 && random.one_in(10);
    const std::size_t number = again ? random.between(1, last_message_) : ++last_message_;
    const std::size_t kind = random.below(20);
    Message message{.key = {Source("sender"), MessageId("m" + std::to_string(number))},
                    .topic = kind < 12   ? kPlainTopic
                             : kind < 19 ? kLimitedTopic
                                         : kUnhandledTopic,
                    .payload = std::to_string(random.below(3))};
    if (random.one_in(4)) {
      message.partition_key = PartitionKey("partition-" + std::to_string(random.below(3)));
    }
    if (random.one_in(4)) {
      message.due_at = world_.clock().now() + random.between(Duration{1}, Duration{4'000});
    }
    ledger_.on_enqueued(backend.name, message.key);
    messages.push_back(std::move(message));
  }
  world_.note("{} messages come to {}", count, backend.name);
  backend.store.inbox().enqueue(messages);
}

void Scenario::disturb() {
  while (world_.elapsed() < kStorm) {
    world_.pass(world_.random().between(Duration{0}, Duration{2'000}));
    disturb_once();
  }
  calm_down();
}

void Scenario::disturb_once() {
  Random& random = world_.random();
  const std::size_t place = random.below(processes_.size());
  Process& process = *processes_[place];
  Backend& backend = any_backend();
  const std::size_t what = random.below(20);
  if (process.is_stopping()) {
    if (process.has_stopped()) restart(place);
  } else if (what < 10) {
    const auto kind = static_cast<Weather::Kind>(random.below(Weather::kKinds));
    world_.note("{}: the weather at {} is {}", process.name(), backend.server,
                static_cast<int>(kind));
    process.set_weather(backend.server, kind);
  } else if (what < 15) {
    process.has_open(backend) ? process.remove(backend) : (void)process.open(backend);
  } else if (what < 16) {
    process.pause();
  } else if (what < 17) {
    process.resume();
  } else if (what < 18) {
    process.wake();
  } else {
    process.stop({.finish_within = random.between(Duration{0}, Duration{4'000}),
                  .interrupt_within = random.between(Duration{0}, Duration{2'000})});
  }
}

void Scenario::restart(std::size_t process) {
  stopped_.push_back(std::move(processes_[process]));
  start(process);
}

void Scenario::set_weather(Weather::Kind kind) {
  world_.note("the weather is {} everywhere", static_cast<int>(kind));
  for (const auto& process : processes_) {
    for (const auto& server : servers_) process->set_weather(server, kind);
  }
}

// The calm --------------------------------------------------------------------------------------

void Scenario::calm_down() {
  // What was begun to stop or to be let go comes to its end though no server can be reached.
  set_weather(world_.random().one_in(2) ? Weather::Kind::down : Weather::Kind::fine);
  for (const auto& process : processes_) {
    const auto is_done = [&] {
      return process->is_stopping() ? process->has_stopped() : process->has_let_go();
    };
    if (!world_.wait(kCalm, is_done)) {
      return world_.violate("{} neither stops nor lets go of the stores that were removed",
                            process->name());
    }
  }
  set_weather(Weather::Kind::fine);
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    Process& process = *processes_[i];
    if (process.is_stopping()) {
      restart(i);
    } else {
      process.resume();
    }
  }
  for (const auto& process : processes_) {
    for (const auto& backend : backends_) {
      if (!process->has_open(*backend)) process->open(*backend);
    }
  }
  look_for_unfinished();
  for (const auto& process : processes_) process->stop({});
  const auto all_stopped = [this] {
    return std::ranges::all_of(processes_, [](const auto& one) { return one->has_stopped(); });
  };
  if (!world_.wait(kCalm, all_stopped)) world_.violate("the processes do not stop");
  is_over_ = true;
}

// Everything that was enqueued is done, and was handled, or it is dead.
void Scenario::look_for_unfinished() {
  const SteadyTime end = world_.clock().steady() + kCalm;
  for (const auto& backend : backends_) {
    for (const MessageKey& key : ledger_.open_keys(backend->name)) {
      const auto status = [&] { return backend->store.inbox().find(key)->status; };
      while (status() == Status::processing && world_.clock().steady() < end) {
        world_.pass(Duration{500});
      }
      if (status() == Status::processing) {
        return world_.violate("{} of {} is forgotten", key.message_id.str(), backend->name);
      }
      if (status() == Status::done && !ledger_.was_handled_well(backend->name, key)) {
        return world_.violate("{} of {} is done, and no handler ever handled it",
                              key.message_id.str(), backend->name);
      }
    }
  }
}

Outcome Scenario::run() {
  set_up();
  world_.spawn("sender", [this] { send(); });
  world_.spawn("operator", [this] { disturb(); });
  while (!world_.violation() && !is_over_ && world_.steps() < kMostSteps) {
    if (!world_.step()) world_.violate("nothing happens any more");
  }
  if (!is_over_ && !world_.violation()) world_.violate("there is no end of it");
  Outcome outcome{.seed = seed_,
                  .steps = world_.steps(),
                  .messages = ledger_.enqueued(),
                  .fingerprint = world_.fingerprint()};
  if (!world_.violation()) return outcome;
  outcome.violation = *world_.violation();
  for (const std::string& line : world_.last_lines()) outcome.story += line + "\n";
  return outcome;
}

}  // namespace

Outcome run(std::uint64_t seed, Planted planted) {
  std::optional<LeaksExpected> leaks;
  if (planted != Planted::nothing) leaks.emplace();
  auto scenario = std::make_unique<Scenario>(seed, planted);
  Outcome outcome = scenario->run();
  // Fibers that stand in the middle of a call cannot be ended: what they use has to stay.
  if (!outcome.is_good()) (void)scenario.release();
  return outcome;
}

}  // namespace oncebox::simulation
