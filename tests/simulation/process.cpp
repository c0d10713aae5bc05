#include "process.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "effective_options.hpp"

namespace oncebox::simulation {

namespace {

constexpr Duration kLease = std::chrono::seconds{3};
constexpr Duration kNotifiedPoll = std::chrono::minutes{5};
/// What every other process may hold. A message has one byte.
constexpr std::size_t kFewBytes = 4;
/// How long all that belongs to a stop may take once every server answers again.
constexpr Duration kStopTakes = std::chrono::seconds{60};

OwnerToken owner_of(std::uint64_t number) {
  Uuid::Bytes bytes{};
  bytes[0] = 1;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[15 - i] = static_cast<Uuid::Bytes::value_type>(number >> (8 * i));
  }
  return OwnerToken(Uuid(bytes));
}

}  // namespace

/// Hears of the leases of one store that were lost.
class Process::LeaseWatch final : public Observer {
 public:
  LeaseWatch(Process& process, std::string store) : process_(process), store_(std::move(store)) {}

  void on_lease_lost(const MessageKey& key) noexcept override {
    process_.on_lease_lost(store_, key);
  }

 private:
  Process& process_;
  const std::string store_;
};

SetDispatcherOptions Process::options_of(World& world, std::uint64_t number) {
  Random& random = world.random();
  const std::size_t batch = random.between(1, 8);
  DispatcherOptions each{
      .owner = owner_of(number),
      .workers = random.between(1, 5),
      .batch_size = batch,
      .max_buffered = random.between(batch, 4 * batch),
      .buffer_bytes = number % 2 == 0 ? kFewBytes : defaults::kBufferBytes,
      .lease = kLease,
      .poll_interval = Duration{100},
      .max_poll_interval = std::chrono::seconds{2},
      .reap_interval = std::chrono::seconds{5},
      .retries = RetryPolicies(
          {.backoff = FixedDelay{Duration{700}}, .jitter = Jitter::equal, .max_attempts = 6})};
  return {.dispatcher = dispatcher::effective(std::move(each), {}),
          .notified_poll_interval = kNotifiedPoll,
          .calls_per_server = random.between(1, 4)};
}

std::unique_ptr<StoreSelection> Process::selection_of(World& world) {
  switch (world.random().below(3)) {
    case 0:
      return round_robin();
    case 1:
      drains_first_ = true;
      return drain_first();
    default:
      return weighted_fair();
  }
}

Process::Process(World& world, Ledger& ledger, std::string name, std::uint64_t number,
                 Planted planted)
    : world_(world),
      ledger_(ledger),
      name_(std::move(name)),
      planted_(planted),
      options_(options_of(world, number)),
      observer_([this](const std::string& store) -> Observer& {
        auto& observer = observers_[store];
        if (!observer) observer = std::make_unique<LeaseWatch>(*this, store);
        return *observer;
      }),
      selection_(selection_of(world)),
      routes_(handlers(), options_.dispatcher.no_handler, world.clock().now()),
      dead_handlers_({}, logger_),
      ready_(*options_.dispatcher.max_buffered),
      idle_(world.clock()),
      scheduler_(std::make_shared<dispatcher::SetScheduler>(dispatcher::SetScheduler::Parts{
          options_, routes_, ready_, *selection_, counters_, idle_, dead_handlers_, logger_,
          observer_, world.clock(), nullptr, false})),
      calls_({options_.dispatcher.retries, options_.dispatcher.no_handler,
              options_.dispatcher.max_deliveries, world.random().next()},
             logger_, world.clock()),
      workers_({ready_, *scheduler_, calls_, world.clock()}, options_.dispatcher.workers),
      admission_({routes_, *scheduler_, ready_, workers_, calls_, world.clock()}) {
  scheduler_->start_without_set({workers_, admission_});
  add_workers();
  constexpr std::size_t kMostServers = 8;
  actors_.push_back(world_.add({.name = name_ + " calls",
                                .width = options_.calls_per_server * kMostServers,
                                .act = [this] { return run_call(); },
                                .next_change = [this] { return scheduler_->next_change(); }}));
}

Process::~Process() = default;

void Process::add_workers() {
  for (std::size_t i = 0; i < options_.dispatcher.workers; ++i) free_workers_.insert(i);
  actors_.push_back(world_.add({.name = name_ + " worker",
                                .width = options_.dispatcher.workers,
                                .act = [this] { return run_worker(); }}));
}

bool Process::run_worker() {
  const auto worker = free_workers_.extract(free_workers_.begin());
  const bool has_run = workers_.run_next(worker.value());
  free_workers_.insert(worker.value());
  return has_run;
}

Link& Process::link_to(const std::string& server) {
  auto& link = links_[server];
  if (link) return *link;
  link = std::make_unique<Link>(world_, server, options_.calls_per_server, planted_);
  return *link;
}

bool Process::run_call() {
  if (!scheduler_->run_next()) return false;
  const World::Work& work = world_.work();
  if (work.has_called) link_to(stores_.at(work.store).backend->server).on_work_ended();
  return true;
}

// Stores that come and go -----------------------------------------------------------------------

bool Process::open(Backend& backend) {
  Opened& opened = stores_[backend.name];
  if (!opened.whole.expired()) return false;
  world_.note("{} opens {}", name_, backend.name);
  Link& link = link_to(backend.server);
  link.on_opened(backend.name);
  ledger_.forget_unsettled(backend.name, *options_.dispatcher.owner);
  opened = Opened();
  opened.backend = &backend;
  opened.member = std::make_shared<MemberStore>(
      backend.name, backend.server,
      std::make_unique<LinkedStore>(backend, link, world_, ledger_, planted_));
  opened.whole = opened.member;
  scheduler_->on_opened(opened.member);
  return true;
}

void Process::remove(Backend& backend) {
  const auto found = stores_.find(backend.name);
  if (found == stores_.end() || !found->second.member) return;
  world_.note("{} removes {}", name_, backend.name);
  link_to(backend.server).on_removed(backend.name);
  scheduler_->on_removed(std::exchange(found->second.member, nullptr));
}

bool Process::has_open(const Backend& backend) const {
  const auto found = stores_.find(backend.name);
  return found != stores_.end() && found->second.member != nullptr;
}

bool Process::has_let_go() const {
  return std::ranges::all_of(stores_, [](const auto& entry) {
    return entry.second.member != nullptr || entry.second.whole.expired();
  });
}

void Process::set_weather(const std::string& server, Weather::Kind kind) {
  link_to(server).set_weather(kind);
}

void Process::pause() {
  is_paused_ = true;
  for (const auto& [server, link] : links_) link->count_trouble(false);
  routes_.pause();
  admission_.release_paused();
  scheduler_->wake();
}

void Process::resume() {
  is_paused_ = false;
  for (const auto& [server, link] : links_) link->count_trouble(true);
  routes_.resume();
  scheduler_->wake();
}

void Process::wake() { scheduler_->wake(); }

// Handlers --------------------------------------------------------------------------------------

Handlers Process::handlers() {
  const auto handler = [this](const ClaimedMessage& message, HandlerContext& context) {
    handle(message, context);
  };
  Handlers handlers;
  handlers.on("plain.*", handler);
  handlers.on("limited.*", handler, {.max_concurrency = kLimit});
  return handlers;
}

void Process::handle(const ClaimedMessage& message, HandlerContext& context) {
  using Handled = Ledger::Handled;
  const std::string store(context.store());
  ledger_.on_handler_began(store, message);
  if (ledger_.running(message.owner) > options_.dispatcher.workers) {
    world_.violate("{} runs more handlers than it has workers", name_);
  }
  if (ledger_.running(message.owner, kLimitedTopic) > kLimit) {
    world_.violate("{} runs more handlers of a topic than its limit", name_);
  }
  const Opened& opened = stores_.at(store);
  if (!opened.member && !link_to(opened.backend->server).is_under_way(store, "claim")) {
    world_.violate("a handler of {} began with a message of {}, which was removed", name_, store);
  }
  Random& random = world_.random();
  const Duration longest{random.one_in(20) ? 6'000 : 40};
  // Some handlers do not look at their stop token.
  const bool looks = !random.one_in(4);
  const Duration takes = random.between(Duration{0}, longest);
  if (!world_.pass(takes, looks ? context.stop_token() : std::stop_token())) {
    ledger_.on_handler_ended(store, message, Handled::interrupted);
    throw std::runtime_error("interrupted");
  }
  const std::size_t end = random.below(12);
  ledger_.on_handler_ended(store, message, end < 3 ? Handled::failed : Handled::well);
  if (end == 0) throw PermanentFailure("this cannot be handled");
  if (end == 1) throw RetryAfter(random.between(Duration{1}, Duration{3'000}), "later");
  if (end == 2) throw std::runtime_error("this time it failed");
}

// A lease is kept while the server answers: several rounds fit into one.
void Process::on_lease_lost(const std::string& store, const MessageKey& key) {
  const Link& link = link_to(stores_.at(store).backend->server);
  const bool is_fine = link.weather().kind == Weather::Kind::fine;
  if (!is_fine || world_.clock().steady() - link.weather().fine_since < 2 * kLease) return;
  world_.violate("{} lost the lease of {} of {}, whose server answered all the time", name_,
                 key.message_id.str(), store);
}

// The end ---------------------------------------------------------------------------------------

void Process::stop(const StopOptions& options) {
  is_stopping_ = true;
  world_.spawn(name_ + " stop", [this, options] { run_stop(options); });
}

void Process::run_stop(const StopOptions& options) {
  world_.note("{} stops", name_);
  for (const auto& [server, link] : links_) link->count_trouble(false);
  scheduler_->stop_claiming();
  for (dispatcher::InFlight* message : ready_.close()) workers_.give_back(*message);
  const auto is_quiet = [this] { return scheduler_->in_flight() == 0; };
  if (!world_.wait(options.finish_within, is_quiet)) {
    workers_.interrupt_all();
    world_.wait(options.interrupt_within, is_quiet);
  }
  workers_.interrupt_all();
  // The destructor waits for every handler; then what is left is recorded, or given up.
  world_.wait(std::chrono::hours{24}, [this] { return workers_.running() == 0; });
  world_.wait(std::chrono::hours{24}, [this] { return !scheduler_->is_claiming(); });
  scheduler_->stop_repeating();
  const auto answers = [this] {
    return std::ranges::all_of(links_, [](const auto& entry) {
      return entry.second->weather().kind != Weather::Kind::hanging;
    });
  };
  while (!world_.wait(kStopTakes, is_quiet)) {
    if (!answers()) continue;
    world_.violate("{} does not stop: {} messages are in flight", name_, scheduler_->in_flight());
    return;
  }
  const auto is_idle = [this] {
    return std::ranges::all_of(actors_, [](const auto& actor) { return actor->busy == 0; });
  };
  for (const auto& actor : actors_) actor->is_over = true;
  world_.wait(std::chrono::hours{24}, is_idle);
  for (auto& [name, opened] : stores_) opened.member = nullptr;
  scheduler_->stop();
  for (const auto& [name, opened] : stores_) {
    if (!opened.whole.expired()) world_.violate("{} has stopped, and holds {}", name_, name);
  }
  has_stopped_ = true;
  world_.note("{} has stopped", name_);
}

// What has to hold ------------------------------------------------------------------------------

void Process::check() {
  if (is_stopping_) return;
  if (ready_.size() > 0 && !free_workers_.empty()) {
    world_.violate("{} has a message and a free worker, and does nothing", name_);
  }
  const std::size_t most = *options_.dispatcher.max_buffered + options_.dispatcher.batch_size *
                                                                   options_.calls_per_server *
                                                                   links_.size();
  if (ready_.size() > most)
    world_.violate("{} has {} messages in its buffer", name_, ready_.size());
  const std::size_t held = ready_.size() + ledger_.running(*options_.dispatcher.owner);
  if (held > options_.dispatcher.buffer_bytes + stores_.size()) {
    world_.violate("{} holds {} messages of one byte", name_, held);
  }
  for (auto& [name, opened] : stores_) {
    if (!opened.member) continue;
    check_claims(opened);
    check_settlements(opened);
  }
}

/// Whether nothing but the dispatcher itself could keep it from calling this store.
bool Process::is_well(const Opened& opened) {
  const Link& link = link_to(opened.backend->server);
  const std::string& store = opened.backend->name;
  // Until its verdicts are recorded, it may have as much in flight as one store may have.
  return link.works_under_way() < options_.calls_per_server && !link.has_failed_to_claim(store) &&
         !link.has_failed_to_settle(store) && !link.is_under_way(store, "settle");
}

bool Process::is_due_to_be_claimed(const MessageRecord& record) const {
  if (record.lease || !record.eligible_at || *record.eligible_at > world_.clock().now()) {
    return false;
  }
  const Message& message = *record.message;
  if (message.partition_key) return false;  // it may be behind another one
  // A claim under way may have all the room of a limited topic.
  const auto claims = [](const auto& entry) { return entry.second->is_claiming(); };
  return message.topic == kPlainTopic ||
         (message.topic == kLimitedTopic && !std::ranges::any_of(links_, claims) &&
          ledger_.running(*options_.dispatcher.owner, kLimitedTopic) == 0);
}

// A message that can be claimed is claimed at once if the store tells of it, and otherwise with the
// next poll, when there is room for it and its server has a call to spare, whatever happens to the
// other servers. Where bytes are few there is room for a store of which nothing is held. Leases of
// others that lapse are nothing that a store tells.
void Process::check_claims(Opened& opened) {
  const Backend& backend = *opened.backend;
  const Link& link = link_to(backend.server);
  const bool has_bytes = options_.dispatcher.buffer_bytes > kFewBytes ||
                         !ledger_.has_any(backend.name, *options_.dispatcher.owner);
  const bool can_claim = is_well(opened) && !is_paused_ && !drains_first_ && ready_.size() == 0 &&
                         has_bytes && !link.is_under_way(backend.name, "claim");
  if (!can_claim) {
    opened.claimable_since.clear();
    return;
  }
  const SteadyTime steady = world_.clock().steady();
  std::map<MessageKey, SteadyTime> claimable;
  for (const MessageKey& key : ledger_.open_keys(backend.name)) {
    const auto record = opened.backend->store.inbox().find(key);
    if (record->status == Status::done || record->status == Status::dead) {
      ledger_.close(backend.name, key);
      continue;
    }
    if (!is_due_to_be_claimed(*record)) continue;
    const auto known = opened.claimable_since.find(key);
    const SteadyTime since = known == opened.claimable_since.end() ? steady : known->second;
    claimable.emplace(key, since);
    const Duration longest =
        backend.notifies ? Duration{0} : options_.dispatcher.max_poll_interval + Duration{50};
    if (steady - since < longest) continue;
    world_.violate("{} does not claim {} of {}, though it could", name_, key.message_id.str(),
                   backend.name);
    return;
  }
  opened.claimable_since = std::move(claimable);
}

void Process::check_settlements(const Opened& opened) {
  const Backend& backend = *opened.backend;
  if (!is_well(opened)) return;
  const auto keys = ledger_.unsettled(backend.name, *options_.dispatcher.owner);
  if (keys.empty()) return;
  world_.violate("{} does not settle {} of {}, though it could", name_,
                 keys.front().message_id.str(), backend.name);
}

}  // namespace oncebox::simulation
