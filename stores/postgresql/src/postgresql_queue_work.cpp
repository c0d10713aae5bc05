#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "postgresql_queue.hpp"
#include "selection.hpp"

namespace oncebox::postgresql {

namespace {

std::size_t bytes_of_all(std::span<const StoredMessage> messages) {
  std::size_t bytes = 0;
  for (const StoredMessage& message : messages) bytes += bytes_of(*message.content);
  return bytes;
}

// A claim of paused topics alone still reaps.
ClaimRequest unpaused(ClaimRequest request, std::span<const TopicPattern> paused) {
  request.topics =
      without_paused(std::move(request.topics), paused).value_or(TopicSelection{.except = {"*"}});
  return request;
}

}  // namespace

PostgresqlQueue::PostgresqlQueue(const StoreParts& parts, QueueKind kind)
    : parts_(parts),
      kind_(kind),
      name_(to_string(kind)),
      sql_(parts.names, name_,
           {.flush_claims = parts.pool.options().flush_claims,
            .kept_attempts = parts.pool.options().kept_attempts}),
      policies_(parts.pool, parts.names, kind),
      floors_(parts.schedules),
      announcer_(parts.schedules, parts.names.channel(name_), std::string(parts.signature),
                 [this](const Announcement& announcement) {
                   // Worth little when it comes late, and nobody may wait for it at the end.
                   const Deadline deadline = deadline_in(std::chrono::seconds{1});
                   run_alone(parts_.pool, sql_.announce,
                             Parameters().add(announcement.channel).add(announcement.text),
                             Exchange::changes_nothing, deadline);
                 }) {}

bool PostgresqlQueue::comes_first(const StoredMessage& a, const StoredMessage& b) noexcept {
  const auto place = [](const StoredMessage& message) {
    const MessageState& state = message.state;
    return std::tuple(-state.priority.value(), state.eligible_at, state.enqueue_order);
  };
  return place(a) < place(b);
}

std::optional<TimePoint> PostgresqlQueue::test_time() const {
  if (parts_.clock == nullptr) return std::nullopt;
  return parts_.clock->now();
}

std::vector<Result> PostgresqlQueue::commit(RowBatch& rows, bool brings_work,
                                            std::span<const Command> last) {
  const std::optional<Announcement> announcement = brings_work ? announcer_.next() : std::nullopt;
  std::vector<Result> results = rows.commit(announcement, last);
  if (brings_work && !announcement) announcer_.soon();
  return results;
}

// Claims ----------------------------------------------------------------------------------------

Command PostgresqlQueue::claim_command(const RuledClaim& claim, const ClaimWindow& window,
                                       const ClaimFloors::Floors& floors,
                                       Parameters& parameters) const {
  const ClaimRequest& request = claim.request;
  ArrayValue priorities(SqlType::smallint);
  ArrayValue times(SqlType::timestamptz);
  ArrayValue numbers(SqlType::bigint);
  for (const auto& [priority, place] : floors.by_priority) {
    priorities.add(static_cast<std::int16_t>(priority));
    times.add(place.eligible_at);
    numbers.add(place.enqueue_order);
  }
  parameters.add(static_cast<std::int32_t>(window.limit))
      .add(request.owner.uuid().bytes())
      .add(std::int64_t{request.lease.count()})
      .add(test_time())
      .add(static_cast<std::int64_t>(window.bytes_left))
      .add(floors.lapsed)
      .add(std::move(priorities))
      .add(std::move(times))
      .add(std::move(numbers))
      .add(static_cast<std::int32_t>(window.candidates))
      .add(window.takes_one_at_least)
      .add(claim.rules.version)
      .add(claim.worker);
  const bool every_topic = request.topics.only.empty() && request.topics.except.empty();
  if (!every_topic) add_selection(parameters, request.topics);
  return {every_topic ? &sql_.claim : &sql_.claim_topics, &parameters};
}

PostgresqlQueue::ClaimAnswer PostgresqlQueue::read_claim(const Result& result,
                                                         std::int32_t worker) {
  constexpr int kHead = 10;
  ClaimAnswer answer{.is_clean = result.boolean(0, 0),
                     .now = result.time(0, 1),
                     .policies = result.int64(0, 7),
                     .candidates = static_cast<std::size_t>(result.int64(0, 2)),
                     .has_more = result.boolean(0, 3),
                     .chosen = static_cast<std::size_t>(result.int64(0, 4)),
                     .missed = {},
                     .messages = {},
                     .runs = {}};
  if (!result.is_null(0, 5)) answer.missed = {result.int64(0, 5), result.int64(0, 6)};
  if (result.is_null(0, kHead)) return answer;
  answer.messages.reserve(static_cast<std::size_t>(result.rows()));
  for (int row = 0; row < result.rows(); ++row) {
    const StoredMessage& message = answer.messages.emplace_back(read_row(result, row, kHead));
    const bool begins_run = !result.is_null(row, 8) && result.int64(row, 8) == message.id;
    if (begins_run) answer.runs.emplace_back(message, result.int64(row, 9), worker);
  }
  std::sort(answer.messages.begin(), answer.messages.end(), comes_first);
  return answer;
}

PostgresqlQueue::ClaimAnswer PostgresqlQueue::claim_once(const RuledClaim& claim,
                                                         const ClaimWindow& window,
                                                         const ClaimFloors::Floors& floors) {
  Parameters parameters;
  const Command command = claim_command(claim, window, floors, parameters);
  return read_claim(run_alone(parts_.pool, *command.statement, parameters, Exchange::commits),
                    claim.worker);
}

// Another process that is claiming from the run may take only a part of it. This call does not wait
// long for it: the process may have stopped.
PostgresqlQueue::ClaimAnswer PostgresqlQueue::claim_behind_others(const RuledClaim& claim,
                                                                  const ClaimFloors::Floors& floors,
                                                                  const IdRange& run) {
  constexpr std::string_view kAtMost = "100ms";
  const Parameters wait = Parameters().add(run.first).add(run.last).add(kAtMost);
  Parameters parameters;
  const std::array commands{Command{&sql_.runs.wait_for_run, &wait},
                            claim_command(claim, whole_window(claim.request), floors, parameters)};
  const Deadline deadline = parts_.pool.deadline();
  try {
    return repeating([&] {
      const ConnectionPool::Lease connection = parts_.pool.acquire(deadline);
      return read_claim(connection->run_all(commands, Exchange::commits, deadline).back(),
                        claim.worker);
    });
  } catch (const LockTimeout&) {
    return {};
  }
}

// A claim that fails has changed nothing, so what it reaps is committed together with it; unless
// that is a backlog, of which it brings only the end.
PostgresqlQueue::ClaimAnswer PostgresqlQueue::claim_after_reaping(
    const RuledClaim& claim, const ClaimFloors::Floors& floors) {
  const Overdue overdue = find_overdue_end(claim.rules.policies, floors.lapsed, claim.reaped);
  // The rows that are left are locked by another transaction, for which a claim does not wait.
  ClaimFloors::Floors without_check = floors;
  without_check.lapsed = kMaxTime;
  ReapResult reaped;
  ClaimAnswer answer = in_rows(overdue.partitions, [&](RowBatch& rows, Transaction&) {
    reaped = reap_in(rows, overdue, claim.rules.policies);
    Parameters parameters;
    const Command command =
        claim_command(claim, whole_window(claim.request), without_check, parameters);
    return read_claim(commit(rows, reaped.total() > 0, {&command, 1}).front(), claim.worker);
  });
  claim.reaped.add(std::move(reaped));
  return answer;
}

PostgresqlQueue::ClaimAnswer PostgresqlQueue::claim_from_floors(const RuledClaim& claim) {
  const ClaimRequest& request = claim.request;
  const ClaimFloors::Floors floors = floors_.before_claim(request.topics);
  auto began = parts_.schedules.steady();
  ClaimAnswer answer = claim_once(claim, whole_window(request), floors);
  if (answer.policies == claim.rules.version && !answer.is_clean) {
    began = parts_.schedules.steady();
    answer = claim_after_reaping(claim, floors);
  }
  if (answer.policies != claim.rules.version) return answer;
  // The floor stays before rows that another claim was faster to lock, because it may take only a
  // part of a run; and before messages that were too large for this batch.
  const bool met_others = answer.missed || answer.messages.size() < answer.chosen;
  const bool is_exhausted = answer.candidates < request.limit && !answer.has_more && !met_others &&
                            answer.chosen == answer.candidates;
  floors_.after_claim(request.topics, floors,
                      {.now = answer.now,
                       .messages = met_others ? std::span<const StoredMessage>() : answer.messages,
                       .is_exhausted = is_exhausted,
                       .took = parts_.schedules.steady() - began});
  if (met_others || answer.has_more) claim_more(claim, floors, answer);
  return answer;
}

// Some of the candidates were just being claimed by others, or were few: looks further, so that a
// worker does not go idle while there is something to do.
void PostgresqlQueue::claim_more(const RuledClaim& claim, ClaimFloors::Floors floors,
                                 ClaimAnswer& answer) {
  const ClaimRequest& request = claim.request;
  floors.lapsed = kMaxTime;
  constexpr int kMaxRounds = 4;
  constexpr std::size_t kWider = 4;
  std::size_t window = request.limit;
  const auto add = [&](ClaimAnswer more) {
    std::move(more.messages.begin(), more.messages.end(), std::back_inserter(answer.messages));
    std::move(more.runs.begin(), more.runs.end(), std::back_inserter(answer.runs));
    answer.missed = more.missed;
  };
  try {
    for (int round = 0; round < kMaxRounds; ++round) {
      const std::size_t bytes = bytes_of_all(answer.messages);
      if (answer.messages.size() >= request.limit || bytes >= request.max_bytes) break;
      window = std::min(window * kWider, limits::kMaxBatchItems);
      ClaimAnswer more = claim_once(claim,
                                    {.limit = request.limit - answer.messages.size(),
                                     .candidates = window,
                                     .bytes_left = request.max_bytes - bytes,
                                     .takes_one_at_least = answer.messages.empty()},
                                    floors);
      const bool saw_everything = more.candidates < window && !more.has_more;
      const bool got_what_it_chose = more.messages.size() == more.chosen;
      add(std::move(more));
      if (saw_everything || (got_what_it_chose && !answer.messages.empty())) break;
    }
    for (int round = 0; round < kMaxRounds && answer.messages.empty() && answer.missed; ++round) {
      add(claim_behind_others(claim, floors, *answer.missed));
    }
  } catch (const Error&) {
    if (answer.messages.empty()) throw;  // else what was claimed before belongs to the caller
  }
  std::sort(answer.messages.begin(), answer.messages.end(), comes_first);
}

PostgresqlQueue::ClaimAnswer PostgresqlQueue::claim_by(const RuledClaim& claim) {
  const TopicPolicies& policies = claim.rules.policies;
  if (!policies.limits().empty()) return claim_within_limits(claim);
  if (policies.paused().empty()) return claim_from_floors(claim);
  return claim_from_floors(
      {unpaused(claim.request, policies.paused()), claim.rules, claim.worker, claim.reaped});
}

std::int32_t PostgresqlQueue::worker_number(const WorkerName& name) {
  const std::optional<TimePoint> test_now = test_time();
  const TimePoint now = test_now.value_or(SystemClock::current());
  if (const std::optional<std::int64_t> known = workers_.number_of(name, now)) {
    return static_cast<std::int32_t>(*known);
  }
  const Parameters values = Parameters().add(std::string_view(name.str())).add(test_now);
  const Result seen = run_alone(parts_.pool, sql_.see_worker, values, Exchange::changes_nothing);
  workers_.written(name, seen.int32(0, 0), now);
  return seen.int32(0, 0);
}

ClaimResult PostgresqlQueue::do_claim(const ClaimRequest& request) {
  ClaimResult result;
  try {
    result.messages = claim_by_current_rules(request, result.reaped);
  } catch (const std::exception&) {
    if (result.reaped.total() == 0) throw;  // else what was buried before is told
  }
  return result;
}

std::vector<ClaimedMessage> PostgresqlQueue::claim_by_current_rules(const ClaimRequest& request,
                                                                    ReapResult& reaped) {
  const WorkerName worker_name = worker_of(request);
  const std::int32_t worker = worker_number(worker_name);
  know_newest();  // before anything changes: it may fail
  for (KnownPolicies::Snapshot rules = policies_.last();; rules = policies_.read()) {
    ClaimAnswer answer = claim_by({request, *rules, worker, reaped});
    if (answer.policies != rules->version) continue;
    try {
      if (mend_after_claim(answer.now) && answer.messages.empty()) continue;
    } catch (const std::exception&) {
      if (answer.messages.empty()) throw;  // else what was claimed belongs to the caller
    }
    if (!answer.messages.empty()) workers_.was_given_work(worker_name);
    return hand_out(answer.messages, answer.runs, rules->policies);
  }
}

TimePoint PostgresqlQueue::database_time() {
  return run_alone(parts_.pool, sql_.read_time, Parameters().add(test_time()),
                   Exchange::changes_nothing)
      .time(0, 0);
}

void PostgresqlQueue::know_newest() {
  std::call_once(newest_is_known_, [&] {
    const Result newest =
        run_alone(parts_.pool, sql_.newest, Parameters(), Exchange::changes_nothing);
    if (!newest.empty()) (void)watch_.went_back(newest.time(0, 0));
  });
}

// The rows that another call has locked are being changed by its own time, or by another mender.
bool PostgresqlQueue::mend_after_claim(TimePoint claimed_at) {
  if (claimed_at == TimePoint{}) return false;  // it did not get so far
  if (!watch_.went_back(claimed_at)) return false;
  // An answer that was long on its way, while others were told of later times, looks the same. So
  // the time is read anew, and compared with what was known before.
  const TimePoint known = watch_.latest();
  const TimePoint now = database_time();
  if (!ClockWatch::is_behind(now, known) || !watch_.went_back(now)) return false;
  constexpr std::int32_t kRowsAtOnce = 10'000;
  for (const Statement* const mend : {&sql_.mend_runs, &sql_.mend_work}) {
    std::int64_t mended = kRowsAtOnce;
    while (mended == kRowsAtOnce) {
      const Parameters values = Parameters().add(test_time()).add(kRowsAtOnce);
      mended = run_alone(parts_.pool, *mend, values, Exchange::commits).int64(0, 0);
    }
  }
  floors_.forget();
  handouts_.forget_all();  // they know when leases ended by the clock of before
  watch_.mended(now);
  return true;
}

Health PostgresqlQueue::clock_health() {
  constexpr std::string_view kWhose = "the database server's";
  if (watch_.health(kMinTime, kWhose).status == HealthStatus::healthy) return {};
  return watch_.health(database_time(), kWhose);
}

std::vector<ClaimedMessage> PostgresqlQueue::hand_out(std::span<StoredMessage> messages,
                                                      std::span<const HeldRun> runs,
                                                      const TopicPolicies& policies) {
  handouts_.remember(messages, runs);
  std::vector<ClaimedMessage> claimed;
  claimed.reserve(messages.size());
  for (StoredMessage& message : messages) claimed.push_back(sql::take_claimed(message));
  tell_attempt_limits(claimed, policies);
  return claimed;
}

// Extensions ------------------------------------------------------------------------------------

std::vector<ExtendOutcome> PostgresqlQueue::do_extend(std::span<const LeaseExtension> extensions) {
  // A statement changes a row once, so a message that is named again waits for the next round.
  std::vector<std::size_t> left(extensions.size());
  std::iota(left.begin(), left.end(), 0);
  for (const LeaseExtension& extension : extensions) leave_run(extension.delivery);
  return in_transaction(parts_.pool, [&](Transaction& transaction) {
    std::vector<ExtendOutcome> outcomes(extensions.size());
    for (std::vector<std::size_t> round = left; !round.empty();) {
      round = extend_once(transaction, extensions, round, outcomes);
    }
    transaction.commit();
    return outcomes;
  });
}

void PostgresqlQueue::leave_run(const Delivery& delivery) {
  const std::optional<Handouts::Handout> handout = handouts_.find(delivery);
  if (!handout) return;
  const std::optional<HeldRun> run = handouts_.run_of(handout->id);
  if (!run) return;
  std::vector<HeldRun> rest;
  if (handout->id > run->first_id) rest.push_back(run->part(run->first_id, handout->id - 1));
  if (handout->id < run->last_id) rest.push_back(run->part(handout->id + 1, run->last_id));
  handouts_.replace_run(*run, rest);
}

std::vector<std::size_t> PostgresqlQueue::extend_once(Transaction& transaction,
                                                      std::span<const LeaseExtension> extensions,
                                                      const std::vector<std::size_t>& places,
                                                      std::vector<ExtendOutcome>& outcomes) const {
  std::map<Uuid, std::size_t> by_key;  // sorted, so that two calls do not wait for each other
  std::vector<std::size_t> again;
  for (const std::size_t i : places) {
    const Uuid key(sql::storage_key(extensions[i].delivery.key));
    if (!by_key.emplace(key, i).second) again.push_back(i);
  }
  ArrayValue locked(SqlType::uuid);
  ArrayValue keys(SqlType::uuid);
  ArrayValue deliveries(SqlType::bigint);
  ArrayValue owners(SqlType::uuid);
  ArrayValue leases(SqlType::bigint);
  for (const auto& [key, i] : by_key) {
    const Delivery& delivery = extensions[i].delivery;
    locked.add(key.bytes());
    keys.add(key.bytes());
    deliveries.add(delivery.number ? std::optional(static_cast<std::int64_t>(*delivery.number))
                                   : std::nullopt);
    owners.add(delivery.owner.uuid().bytes());
    leases.add(std::int64_t{extensions[i].lease.count()});
  }
  const Parameters to_lock = Parameters().add(std::move(locked));
  Parameters parameters;
  parameters.add(std::move(keys)).add(std::move(deliveries)).add(std::move(owners));
  parameters.add(std::move(leases)).add(test_time());
  // Locked first: otherwise a row that another transaction is changing would be passed over.
  const std::array commands{
      Command{&sql_.runs.take_out, &to_lock}, Command{&sql_.lock_keys, &to_lock},
      Command{&sql_.runs.any_in_run, &to_lock}, Command{&sql_.extend, &parameters}};
  std::vector<Result> results = transaction.run_all(commands);
  if (results[2].boolean(0, 0)) {
    throw LostAgainstAnother("a run was changed while a message was taken out; repeat the call");
  }
  const Result extended = std::move(results.back());
  for (int row = 0; row < extended.rows(); ++row) {
    outcomes[by_key.at(extended.uuid(row, 0))].locked_until = extended.time(row, 1);
  }
  return again;
}

// Reaping ---------------------------------------------------------------------------------------

PostgresqlQueue::Overdue PostgresqlQueue::find_overdue(
    std::size_t limit, const std::optional<TimePoint>& lapsed_after) {
  const auto row_limit = static_cast<std::int32_t>(limit);
  const Parameters lapsed = Parameters().add(test_time()).add(lapsed_after).add(row_limit);
  const Parameters expired = Parameters().add(test_time()).add(row_limit);
  // Where its state is written does not change it, so this may be committed by itself.
  const std::array commands{Command{&sql_.runs.take_out_lapsed, &lapsed},
                            Command{&sql_.find_lapsed, &lapsed},
                            Command{&sql_.find_expired, &expired}};
  const Deadline deadline = parts_.pool.deadline();
  const std::vector<Result> found = repeating([&] {
    return parts_.pool.acquire(deadline)->run_all(commands, Exchange::changes_nothing, deadline);
  });
  Overdue overdue;
  for (const Result& result : std::span(found).subspan(1)) {
    for (int row = 0; row < result.rows() && overdue.ids.size() < limit; ++row) {
      overdue.ids.push_back(result.int64(row, 0));
      if (!result.is_null(row, 1)) overdue.partitions.emplace(result.bytes(row, 1));
    }
  }
  return overdue;
}

PostgresqlQueue::Overdue PostgresqlQueue::find_overdue_end(
    const TopicPolicies& policies, const std::optional<TimePoint>& lapsed_after,
    ReapResult& reaped_before) {
  constexpr std::size_t kReapStep = 1'000;
  Overdue overdue = find_overdue(kReapStep, lapsed_after);
  while (overdue.ids.size() == kReapStep) {
    ReapResult reaped = reap_each(overdue, policies);
    if (reaped.total() == 0) break;
    reaped_before.add(std::move(reaped));
    overdue = find_overdue(kReapStep, lapsed_after);
  }
  return overdue;
}

ReapResult PostgresqlQueue::reap_in(RowBatch& rows, const Overdue& overdue,
                                    const TopicPolicies& policies) {
  if (overdue.ids.empty()) return {};
  rows.load_ids(overdue.ids);
  const TimePoint now = rows.now();
  ReapResult result;
  for (RowBatch::Row* row : rows.rows()) {
    MessageState& state = row->state;
    if (state.status != Status::processing || state.enqueue_order == 0) continue;
    if (state.lease && state.lease->live_at(now)) continue;
    if (!state.lease && !state.expired_at(now)) continue;
    const ResolvedPolicy& policy = policies.for_topic(row->content->topic.str());
    row->ended_attempt = lapsed_attempt(state);
    if (std::optional<std::string> cause = cause_of_death(state, policy, now)) {
      result.add({row->key, row->content->topic, *cause});
      bury(state, std::move(*cause), now);
    } else {
      lapse(state);
      ++result.released;
    }
    RowBatch::save(*row);
  }
  return result;
}

ReapResult PostgresqlQueue::reap_each(const Overdue& overdue, const TopicPolicies& policies) {
  if (overdue.ids.empty()) return {};
  return in_rows(overdue.partitions, [&](RowBatch& rows, Transaction&) {
    ReapResult result = reap_in(rows, overdue, policies);
    commit(rows, result.total() > 0);
    return result;
  });
}

ReapResult PostgresqlQueue::do_reap(const ReapRequest& request) {
  run_alone(parts_.pool, sql_.add_up_done, Parameters(), Exchange::changes_nothing);
  const KnownPolicies::Snapshot rules = policies_.read();
  ReapResult result = reap_each(find_overdue(request.limit, std::nullopt), rules->policies);
  if (result.total() > 0) listeners_.notify();
  return result;
}

void PostgresqlQueue::do_listen(std::weak_ptr<WorkListener> listener) {
  listeners_.add(std::move(listener));
  if (start_listening_) start_listening_();
}

void PostgresqlQueue::do_offer(const std::shared_ptr<ClaimOffer>& offer) { offers_.add(offer); }

}  // namespace oncebox::postgresql
