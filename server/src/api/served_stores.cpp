#include "api/served_stores.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/publish_service.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/error.hpp"
#include "oncebox/wire/audit_json.hpp"

namespace oncebox::server {

namespace {

/// A queue that tells of work is still polled now and then, in case a notification was lost.
constexpr Duration kPollOfNotifying = std::chrono::seconds{5};
/// When to try again to set the configured rules: so long after the first failure, and twice as
/// long after each further one, up to the other.
constexpr Duration kFirstRulesPause = std::chrono::seconds{1};
constexpr Duration kLongestRulesPause = std::chrono::minutes{1};
constexpr std::size_t kLooksAtOnce = 4;
/// Who has set a configured rule, in the audit trail.
constexpr std::string_view kConfigurationActor = "configuration";

void let_claims_wait(const ServedStorePtr& store, ServedQueue& queue, const ApiParts& parts,
                     FairPlaces& places) {
  const bool notifies = queue.store.store().capabilities().notifies;
  queue.claims = std::make_unique<WaitingClaims>(
      WaitingClaims::Parts{store, queue.queue, queue.calls, parts.timers, places,
                           queue.store.metrics(), parts.logger, parts.clock},
      WaitingClaims::Settings{.store = queue.store.name(),
                              .queue = to_string(queue.kind),
                              .poll = notifies ? kPollOfNotifying : defaults::kPollInterval});
}

/// Leaves a rule alone that says so already: every change makes all processes read the rules anew.
void set_policy(Store& store, const TopicOptions& wanted) {
  const TopicPattern pattern(wanted.topic);
  const TopicPolicy before = store.policies().policies(wanted.queue).rule_of(pattern);
  TopicPolicy after = before;
  after.apply(wanted.change);
  if (after == before) return;
  const AuditEntry entry{.actor = std::string(kConfigurationActor),
                         .action = audit_action_of(wanted.change),
                         .part = audited_part(wanted.queue),
                         .subject = wire::audit_subject(pattern, wanted.change)};
  audited(
      store.audit(), entry,
      [&] { return store.policies().update(wanted.queue, pattern, wanted.change); },
      [&](const TopicPolicy& now) -> std::size_t { return now == before ? 0 : 1; });
}

void set_configured_policies(Store& store, const ServerOptions& options) {
  if (!options.retry.empty()) set_policy(store, {.topic = "*", .change = options.retry});
  for (const TopicOptions& rule : options.topics) set_policy(store, rule);
}

EnqueueOptions usual(const ApiParts& parts) { return parts.options.enqueue; }

EnqueueOptions strict(const ApiParts& parts) {
  EnqueueOptions options = parts.options.enqueue;
  options.on_hash_mismatch = HashMismatchPolicy::keep_first;
  return options;
}

std::string log_name_of(const MemberStore& member, QueueKind queue) {
  if (queue == QueueKind::inbox) return member.name();
  return member.name() + "/" + std::string(to_string(queue));
}

detail::IntakeOptions intake_options(MemberStore& member, QueueKind queue,
                                     const EnqueueOptions& enqueue) {
  return {.name = log_name_of(member, queue),
          .queue = queue,
          .enqueue = enqueue,
          .max_payload_bytes = member.store().capabilities().max_payload_bytes};
}

}  // namespace

ServedStore::QueueService::QueueService(MemberStore& member, QueueKind kind, const ApiParts& parts,
                                        Observer& observer)
    : name(log_name_of(member, kind)),
      intake(member.store().queue(kind), intake_options(member, kind, usual(parts)),
             {parts.logger, observer, parts.clock}),
      strict_intake(member.store().queue(kind), intake_options(member, kind, strict(parts)),
                    {parts.logger, observer, parts.clock}),
      operations(member.store().queue_operator(kind), member.store().queue(kind), name,
                 {parts.logger, observer}) {}

ServedQueue ServedStore::served(QueueKind kind, QueueService& service) {
  return {.store = *this,
          .calls = calls,
          .looks = looks,
          .kind = kind,
          .log_name = service.name,
          .queue = service.intake.queue(),
          .operations = service.operations,
          .singles = service.intake,
          .strict_singles = service.strict_intake,
          .max_payload_bytes = store().capabilities().max_payload_bytes};
}

ServedQueue& ServedStore::queue(QueueKind kind) noexcept {
  switch (kind) {
    case QueueKind::inbox:
      return inbox;
    case QueueKind::outbox:
      return outbox;
    case QueueKind::deliveries:
      break;
  }
  return deliveries;
}

ServedStore::ServedStore(MemberStorePtr member, const ApiParts& parts)
    : member_(std::move(member)),
      parts_(parts),
      metrics_(parts.metrics.of_store(name())),
      inbox_service_(*member_, QueueKind::inbox, parts, metrics_->queue(QueueKind::inbox)),
      outbox_service_(*member_, QueueKind::outbox, parts, metrics_->queue(QueueKind::outbox)),
      deliveries_service_(*member_, QueueKind::deliveries, parts,
                          metrics_->queue(QueueKind::deliveries)),
      begins_([this](std::span<const BeginRequest> batch) { return keys().begin(batch); }, {}, {},
              parts.clock),
      completions_(
          [this](std::span<const CompleteRequest> batch) { return keys().complete(batch); }, {}, {},
          parts.clock),
      calls(parts.calls, member_->server()),
      looks(parts.calls, member_->server(), kLooksAtOnce),
      inbox(served(QueueKind::inbox, inbox_service_)),
      outbox(served(QueueKind::outbox, outbox_service_)),
      deliveries(served(QueueKind::deliveries, deliveries_service_)),
      rules_pause_({.first = kFirstRulesPause, .longest = kLongestRulesPause}) {}

void ServedStore::set_rules(const std::weak_ptr<ServedStore>& self,
                            std::function<void(const ServedStorePtr&)> then) {
  const ServerOptions& options = parts_.options;
  if (options.retry.empty() && options.topics.empty() && options.publish.endpoints.empty()) {
    then(self.lock());
    return;
  }
  rules_ = calls.add_task([self, then = std::move(then)] {
    const ServedStorePtr store = self.lock();
    if (store && store->try_to_set_rules()) then(store);
  });
  rules_.want();
}

bool ServedStore::try_to_set_rules() {
  try {
    set_configured_policies(store(), parts_.options);
    set_configured_endpoints(store(), name(), parts_.options.publish);
    return true;
  } catch (const std::exception& error) {
    const Duration pause = rules_pause_.take();
    parts_.logger.log(
        LogLevel::error,
        "the configured rules and endpoints could not be set in a store; the server tries again, "
        "and until then the store keeps those that it has and is not published",
        {{"store", name()}, {"error", error.what()}});
    rules_.want_at(parts_.clock.steady() + pause);
    return false;
  }
}

RequestQueue ServedQueue::for_request(const Request& request) const {
  const ApiParts& parts = store.parts();
  Store& below = store.store();
  return RequestQueue({.below = below.queue(kind),
                       .operations = below.queue_operator(kind),
                       .name = log_name,
                       .logger = parts.logger,
                       .observer = store.metrics().queue(kind),
                       .clock = parts.clock},
                      request);
}

bool ServedStore::take_use() noexcept {
  const bool is_used = is_used_.exchange(false);
  return is_used || std::ranges::any_of(kQueueKinds, [this](QueueKind kind) {
           return queue(kind).claims->waiting() > 0;
         });
}

Health ServedStore::last_health() const {
  const detail::Lock lock(mutex_);
  return health_;
}

Health ServedStore::ask_health() {
  Health health = store().health();
  note_health(health);
  return health;
}

void ServedStore::note_health(const Health& health) {
  const detail::Lock lock(mutex_);
  health_ = health;
}

ServedStores::ServedStores(StoreSet& set, const ApiParts& parts)
    : set_(set),
      parts_(parts),
      default_name_(parts.options.default_store),
      places_(parts.options.limits.max_waiting_claims) {}

void ServedStores::start(Followers followers) {
  followers_ = std::move(followers);
  follower_ = std::make_shared<SetFollower>(
      SetFollower::Calls{[this](const MemberStorePtr& member) { on_opened(member); },
                         [this](const MemberStorePtr& member) { on_removed(member); }});
  set_.listen(follower_);
}

void ServedStores::on_opened(const MemberStorePtr& member) noexcept try {
  add(member);
} catch (const std::exception& failure) {
  parts_.logger.log(LogLevel::error,
                    "the store was opened but cannot be served; restart the server",
                    {{"store", member->name()}, {"reason", failure.what()}});
}

void ServedStores::add(const MemberStorePtr& member) {
  ServedStorePtr store = closer_.make<ServedStore>(member->server(), member, parts_);
  for (const QueueKind kind : kQueueKinds) {
    let_claims_wait(store, store->queue(kind), parts_, places_);
  }
  {
    const detail::WriteLock lock(mutex_);
    stores_.insert_or_assign(member->name(), store);
  }
  followers_.on_opened(store);
  store->set_rules(store, followers_.on_ready);
}

void ServedStores::on_removed(const MemberStorePtr& member) noexcept {
  ServedStorePtr gone;
  {
    const detail::WriteLock lock(mutex_);
    const auto found = stores_.find(member->name());
    if (found == stores_.end() || found->second->member() != member) return;
    gone = std::move(found->second);
    stores_.erase(found);
  }
  followers_.on_removed(gone);
  closer_.run(member->server(),
              [this, gone = std::move(gone)]() mutable { retire(std::move(gone)); });
}

void ServedStores::retire(ServedStorePtr store) {
  for (const QueueKind kind : kQueueKinds) store->queue(kind).claims->close();
}

ServedStorePtr ServedStores::find_open(std::string_view name) const {
  const detail::ReadLock lock(mutex_);
  const auto found = stores_.find(name);
  return found == stores_.end() ? nullptr : found->second;
}

ServedStorePtr ServedStores::find(std::string_view name) {
  if (name.empty()) {
    if (default_name_.empty()) {
      throw Error(ErrorCode::not_found, "there is no default store; name one: /v1/stores/NAME/…");
    }
    name = default_name_;
  }
  if (ServedStorePtr store = find_open(name)) {
    store->note_use();
    return store;
  }
  try {
    (void)set_.find(name);  // `not_found` for an unknown name
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) throw;
  }
  // The reason may name hosts and users: it is not for every client that may send.
  throw Error(ErrorCode::unavailable, "the store is down; see /v1/stores");
}

std::vector<ServedStorePtr> ServedStores::all() const {
  const detail::ReadLock lock(mutex_);
  std::vector<ServedStorePtr> stores;
  stores.reserve(stores_.size());
  for (const auto& [name, store] : stores_) stores.push_back(store);
  return stores;
}

void ServedStores::drain() noexcept {
  for (const ServedStorePtr& store : all()) {
    for (const QueueKind kind : kQueueKinds) store->queue(kind).claims->drain();
  }
}

void ServedStores::close() noexcept {
  if (follower_) follower_->close();
  std::map<std::string, ServedStorePtr, std::less<>> stores;
  {
    const detail::WriteLock lock(mutex_);
    stores.swap(stores_);
  }
  for (auto& [name, store] : stores) retire(std::move(store));
}

}  // namespace oncebox::server
