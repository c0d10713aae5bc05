#include "model_queue_generator.hpp"

#include <chrono>
#include <utility>

#include "model_generator.hpp"

namespace oncebox::conformance {

namespace {

using namespace std::chrono_literals;

/// Everything that is due, in one call. Any number above the keys of the vocabulary would do.
constexpr std::size_t kNoLimit = 1'000;

/// A few keys come more often, among them one id of both sources.
Values<KeyPlace> keys() {
  constexpr KeyPlace kSameIdOfOtherSource = vocabulary::kKeys / 2;
  return one_of<KeyPlace>(
      {0, 0, 0, 0, 1, 1, kSameIdOfOtherSource, kSameIdOfOtherSource, 2, 3, 4, 6, 7, 8, 9});
}

/// Also those in quarantine.
Values<KeyPlace> stored_keys() {
  constexpr KeyPlace kLastQuarantined = vocabulary::kKeys;
  return one_of<KeyPlace>(
      {0, 0, 0, 1, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, kLastQuarantined, kLastQuarantined + 1});
}

Values<vocabulary::HashChoice> hashes() {
  using enum vocabulary::HashChoice;
  return one_of<vocabulary::HashChoice>({none, none, none, of_payload, of_payload, of_payload,
                                         wrong, wrong, other_algorithm, other_algorithm_wrong});
}

Values<FromNow> due_times() {
  std::vector<FromNow> times(12, std::nullopt);
  times.insert(times.end(), {0s, -1s, 1ms, 1s, 2s, 5s});
  return one_of(times);
}

Values<FromNow> expiries() {
  std::vector<FromNow> times(40, std::nullopt);
  times.insert(times.end(), {20s, 5s, 2s, 1s, 1ms, 0s, -1s});
  return one_of(times);
}

Values<FromNow> range_ends() {
  std::vector<FromNow> ends(16, std::nullopt);
  ends.insert(ends.end(), {1ms, 0s, -1s, -2s});
  return one_of(ends);
}

Values<Duration> leases() { return one_of<Duration>({5s, 5s, 2s, 1s, 10s, 30s, 1ms}); }

Values<Duration> revival_delays() { return one_of<Duration>({0s, 0s, 1ms, 2s}); }

Values<std::size_t> errors() { return below(vocabulary::kErrors); }

/// For calls that are repeated until nothing is left.
Values<std::size_t> repeated_limits() { return one_of<std::size_t>({kNoLimit, kNoLimit, 1, 2, 3}); }

Values<MessageDraft> messages() {
  return build<MessageDraft>(
      {set(&MessageDraft::key, keys()),
       set(&MessageDraft::topic, one_of<std::size_t>({0, 0, 0, 0, 0, 0, 1, 2})),
       set(&MessageDraft::payload, one_of<std::size_t>({0, 0, 0, 0, 0, 0, 1, 2, 3})),
       set(&MessageDraft::headers, below(vocabulary::kHeaders)), set(&MessageDraft::hash, hashes()),
       set(&MessageDraft::priority, one_of<std::size_t>({0, 0, 0, 1, 2})),
       set(&MessageDraft::partition, one_of<std::size_t>({0, 0, 0, 1, 1, 2})),
       set(&MessageDraft::due, due_times()), set(&MessageDraft::expires, expiries())});
}

Values<QueueOperation> enqueues() {
  using enum HashMismatchPolicy;
  return build<EnqueueStep, QueueOperation>(
      {set(&EnqueueStep::messages, one_to_three(messages())),
       set(&EnqueueStep::on_hash_mismatch,
           one_of<HashMismatchPolicy>({warn, warn, reject, quarantine, quarantine, keep_first})),
       set(&EnqueueStep::on_dead, one_of<DeadPolicy>({DeadPolicy::keep, DeadPolicy::revive}))});
}

Values<QueueOperation> observes() {
  return build<ObserveStep, QueueOperation>(
      {set(&ObserveStep::observations,
           one_to_three(build<ObservationDraft>(
               {set(&ObservationDraft::key, stored_keys()), set(&ObservationDraft::hash, hashes()),
                set(&ObservationDraft::payload, below(vocabulary::kPayloads))})))});
}

Values<QueueOperation> marks() {
  using enum MarkAs;
  return build<MarkStep, QueueOperation>({set(
      &MarkStep::marks,
      one_to_three(build<MarkDraft>(
          {set(&MarkDraft::key, stored_keys()),
           set(&MarkDraft::as, one_of<MarkAs>({processed, dead, dead, processing, processing})),
           set(&MarkDraft::error, errors())})))});
}

Values<QueueOperation> claims() {
  return build<ClaimStep, QueueOperation>(
      {set(&ClaimStep::owner, below(vocabulary::kOwners)), set(&ClaimStep::lease, leases()),
       set(&ClaimStep::limit, one_of<std::size_t>({1, 2, 3, 4, kNoLimit})),
       set(&ClaimStep::max_bytes, one_of<std::size_t>({1, 10, 20, 1'000, 1'000, 1'000})),
       set(&ClaimStep::topics, one_of<std::size_t>({0, 0, 0, 0, 1, 2, 3, 4}))});
}

Values<DeliveryRef> deliveries() {
  using enum Fence;
  return build<DeliveryRef>(
      {set(&DeliveryRef::only_held, one_of<bool>({true, true, false})),
       set(&DeliveryRef::back, one_of<std::size_t>({0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 6})),
       set(&DeliveryRef::fence,
           one_of<Fence>({exact, exact, exact, exact, exact, exact, exact, owner_only, owner_only,
                          wrong_number, foreign_owner, foreign_owner_only}))});
}

Values<QueueOperation> settles() {
  using enum VerdictKind;
  return build<SettleStep, QueueOperation>({set(
      &SettleStep::settlements,
      one_to_three(build<SettlementDraft>(
          {set(&SettlementDraft::delivery, deliveries()),
           set(&SettlementDraft::verdict, one_of<VerdictKind>({ack, ack, abandon, abandon, abandon,
                                                               abandon, release, release, fail})),
           set(&SettlementDraft::error, errors()),
           set(&SettlementDraft::untried, one_of<bool>({false, false, true})),
           set(&SettlementDraft::delay, one_of<FromNow>({std::nullopt, std::nullopt, 1ms, 1s, 3s})),
           set(&SettlementDraft::limit,
               one_of<std::optional<AttemptLimit>>({std::nullopt, std::nullopt, std::nullopt,
                                                    AttemptLimit{1}, AttemptLimit{2, 3s},
                                                    AttemptLimit{3}}))})))});
}

Values<QueueOperation> extends() {
  return build<ExtendStep, QueueOperation>(
      {set(&ExtendStep::extensions,
           one_to_three(build<ExtensionDraft>({set(&ExtensionDraft::delivery, deliveries()),
                                               set(&ExtensionDraft::lease, leases())})))});
}

/// Revivals and purges accept no other state than dead, so those filters leave it out.
Values<std::vector<Status>> status_sets() {
  using enum Status;
  return one_of<std::vector<Status>>(
      {{}, {}, {}, {dead}, {processing}, {done, seen}, {seen, processing, dead}});
}

Values<std::vector<State>> state_sets() {
  using enum State;
  return one_of<std::vector<State>>(
      {{}, {}, {}, {ready, waiting}, {waiting}, {leased, waiting}, {seen, waiting, done, dead}});
}

Values<std::vector<WaitingFor>> waiting_sets() {
  using enum WaitingFor;
  return one_of<std::vector<WaitingFor>>(
      {{}, {}, {}, {}, {due}, {backoff}, {partition}, {content}, {due, backoff}});
}

/// Few conditions at once: a filter that nothing passes tells little.
Values<FilterDraft> filters(const Values<std::vector<Status>>& statuses,
                            const Values<std::vector<State>>& states,
                            const Values<std::vector<WaitingFor>>& waiting_for) {
  using Place = std::optional<std::size_t>;
  const Place none;
  return build<FilterDraft>(
      {set(&FilterDraft::statuses, statuses), set(&FilterDraft::states, states),
       set(&FilterDraft::waiting_for, waiting_for),
       set(&FilterDraft::topic,
           one_of<Place>({none, none, none, none, none, none, none, none, 0, 1, 2, 3})),
       set(&FilterDraft::source_of,
           one_of<Place>({none, none, none, none, none, none, none, none, 0, 5})),
       set(&FilterDraft::id_of,
           one_of<Place>({none, none, none, none, none, none, none, none, 0, 1})),
       set(&FilterDraft::partition, one_of<std::size_t>({0, 0, 0, 0, 0, 0, 0, 0, 1, 2})),
       set(&FilterDraft::error, one_of<std::size_t>({0, 0, 0, 0, 0, 0, 0, 0, 1, 2})),
       set(&FilterDraft::seen_from, range_ends()), set(&FilterDraft::seen_until, range_ends()),
       set(&FilterDraft::finished_from, range_ends()),
       set(&FilterDraft::finished_until, range_ends())});
}

Values<FilterDraft> all_filters() { return filters(status_sets(), state_sets(), waiting_sets()); }

Values<FilterDraft> dead_filters() {
  return filters(one_of<std::vector<Status>>({{}, {Status::dead}}),
                 one_of<std::vector<State>>({{}, {}, {State::dead}}),
                 just<std::vector<WaitingFor>>({}));
}

Values<QueueOperation> lists() {
  return build<ListStep, QueueOperation>(
      {set(&ListStep::filter, all_filters()),
       set(&ListStep::order, one_of<ListOrder>({ListOrder::oldest_first, ListOrder::newest_first})),
       set(&ListStep::payloads, one_of<ListPayloads>({ListPayloads::omit, ListPayloads::include})),
       set(&ListStep::page, one_of<std::size_t>({1, 2, 3, kNoLimit}))});
}

Values<QueueOperation> revives() {
  return build<ReviveStep, QueueOperation>({set(&ReviveStep::keys, one_to_three(stored_keys())),
                                            set(&ReviveStep::delay, revival_delays()),
                                            set(&ReviveStep::reason, below(vocabulary::kReasons))});
}

Values<QueueOperation> edits() {
  return build<EditStep, QueueOperation>(
      {set(&EditStep::edits, one_to_three(build<EditDraft>(
                                 {set(&EditDraft::key, stored_keys()),
                                  set(&EditDraft::payload, below(vocabulary::kPayloads))}))),
       set(&EditStep::delay, revival_delays()),
       set(&EditStep::reason, below(vocabulary::kReasons))});
}

Values<QueueOperation> matching_revives() {
  return build<ReviveMatchingStep, QueueOperation>(
      {set(&ReviveMatchingStep::filter, dead_filters()),
       set(&ReviveMatchingStep::delay, revival_delays()),
       set(&ReviveMatchingStep::reason, below(vocabulary::kReasons)),
       set(&ReviveMatchingStep::limit, repeated_limits())});
}

Values<ActionKind> action_kinds() {
  using enum ActionKind;
  return one_of<ActionKind>({cancel, run_now, run_now, reschedule, reschedule, remove});
}

Values<Duration> new_due_times() { return one_of<Duration>({-1s, 0s, 1ms, 2s, 5s}); }

Values<QueueOperation> acts() {
  return build<ActStep, QueueOperation>(
      {set(&ActStep::keys, one_to_three(stored_keys())), set(&ActStep::action, action_kinds()),
       set(&ActStep::due, new_due_times()), set(&ActStep::reason, below(vocabulary::kReasons)),
       set(&ActStep::only, weighted<FilterDraft>({{2, just(FilterDraft{})}, {1, all_filters()}}))});
}

Values<QueueOperation> matching_acts() {
  return build<ActMatchingStep, QueueOperation>(
      {set(&ActMatchingStep::filter, all_filters()), set(&ActMatchingStep::action, action_kinds()),
       set(&ActMatchingStep::due, new_due_times()),
       set(&ActMatchingStep::reason, below(vocabulary::kReasons)),
       set(&ActMatchingStep::limit, repeated_limits())});
}

Values<QueueOperation> purges() {
  return build<PurgeStep, QueueOperation>({set(&PurgeStep::keys, one_to_three(stored_keys()))});
}

Values<QueueOperation> matching_purges() {
  return build<PurgeMatchingStep, QueueOperation>(
      {set(&PurgeMatchingStep::filter, dead_filters()),
       set(&PurgeMatchingStep::limit, repeated_limits())});
}

Values<QueueOperation> cleanups() {
  return build<CleanupStep, QueueOperation>(
      {set(&CleanupStep::done_retention, one_of<Duration>({5s, 2s, 1s, 1ms, 0s})),
       set(&CleanupStep::dead_retention,
           one_of<FromNow>({std::nullopt, std::nullopt, std::nullopt, 5s, 1s, 0s})),
       set(&CleanupStep::limit, repeated_limits())});
}

/// Steps of the length of a lease, a delay or an expiry end exactly where those do.
Values<QueueOperation> advances() {
  return build<AdvanceStep, QueueOperation>(
      {set(&AdvanceStep::by, one_of<Duration>({1s, 1s, 1s, 1ms, 999ms, 2s, 2s, 3s, 4s, 5s, 10s}))});
}

Values<QueueOperation> operations() {
  return weighted<QueueOperation>({
      {22, enqueues()},
      {18, claims()},
      {20, settles()},
      {10, advances()},
      {5, observes()},
      {4, marks()},
      {4, extends()},
      {4, build<ReapStep, QueueOperation>({set(&ReapStep::limit, repeated_limits())})},
      {2, build<FindStep, QueueOperation>({set(&FindStep::keys, one_to_three(stored_keys()))})},
      {3, lists()},
      {2, build<CountStep, QueueOperation>({set(&CountStep::filter, all_filters())})},
      {3, just<QueueOperation>(StatsStep{})},
      {4, revives()},
      {3, edits()},
      {3, matching_revives()},
      {5, acts()},
      {2, matching_acts()},
      {1, purges()},
      {2, matching_purges()},
      {5, cleanups()},
      {2, just<QueueOperation>(ReopenStep{})},
  });
}

Values<QueueStep> steps() {
  using enum QueueKind;
  return build<QueueStep>(
      {set(&QueueStep::operation, operations()),
       set(&QueueStep::queue, one_of<QueueKind>({inbox, inbox, inbox, inbox, outbox})),
       set(&QueueStep::handle, below(2))});
}

}  // namespace

rc::Gen<QueueSequence> queue_sequences() {
  return typed(build<QueueSequence>(
      {set(&QueueSequence::max_deliveries, one_of<int>({20, 4, 4, 3, 3, 2, 2, 1})),
       set(&QueueSequence::steps, sequences_of(steps()))}));
}

}  // namespace oncebox::conformance
