#include "model_queue_run.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "model_disagreement.hpp"
#include "model_run.hpp"

namespace oncebox::conformance {

namespace {

/// More than the random operations ever store.
constexpr std::size_t kNoLimit = 1'000;

std::optional<TimePoint> time_at(const FromNow& distance, TimePoint now) {
  return distance ? std::optional(now + *distance) : std::nullopt;
}

Message message_of(const MessageDraft& draft, TimePoint now) {
  return {.key = vocabulary::key(draft.key),
          .topic = vocabulary::topic(draft.topic),
          .payload = vocabulary::payload(draft.payload),
          .headers = vocabulary::headers(draft.headers),
          .hash = vocabulary::hash(draft.hash, draft.payload),
          .priority = vocabulary::priority(draft.priority),
          .partition_key = vocabulary::partition(draft.partition),
          .due_at = time_at(draft.due, now),
          .expires_at = time_at(draft.expires, now)};
}

MessageFilter filter_of(const FilterDraft& draft, TimePoint now) {
  MessageFilter filter{
      .statuses = draft.statuses, .states = draft.states, .waiting_for = draft.waiting_for};
  if (draft.topic) filter.topic = vocabulary::topic_pattern(*draft.topic);
  if (draft.source_of) filter.source = vocabulary::key(*draft.source_of).source;
  if (draft.id_of) filter.message_id = vocabulary::key(*draft.id_of).message_id;
  filter.partition_key = vocabulary::partition(draft.partition);
  if (draft.error > 0) filter.error_contains = vocabulary::error(draft.error);
  filter.first_seen = {time_at(draft.seen_from, now), time_at(draft.seen_until, now)};
  filter.finished = {time_at(draft.finished_from, now), time_at(draft.finished_until, now)};
  return filter;
}

MessageKey key_of(KeyPlace place, const std::vector<MessageKey>& quarantined) {
  if (place < vocabulary::kKeys) return vocabulary::key(place);
  const std::size_t back = place - vocabulary::kKeys;
  return back < quarantined.size() ? quarantined[quarantined.size() - 1 - back]
                                   : vocabulary::key(0);
}

std::vector<MessageKey> keys_of(const std::vector<KeyPlace>& places,
                                const std::vector<MessageKey>& quarantined) {
  std::vector<MessageKey> keys;
  for (const KeyPlace place : places) keys.push_back(key_of(place, quarantined));
  return keys;
}

OwnerToken other_than(const OwnerToken& owner) {
  return owner == vocabulary::owner(0) ? vocabulary::owner(1) : vocabulary::owner(0);
}

Delivery fenced(Delivery delivery, Fence fence) {
  const bool foreign = fence == Fence::foreign_owner || fence == Fence::foreign_owner_only;
  if (foreign) delivery.owner = other_than(delivery.owner);
  if (fence == Fence::owner_only || fence == Fence::foreign_owner_only) delivery.number.reset();
  if (fence == Fence::wrong_number) {
    delivery.number = DeliveryNumber{static_cast<std::uint64_t>(*delivery.number) + 1};
  }
  return delivery;
}

Verdict verdict_of(const SettlementDraft& draft) {
  switch (draft.verdict) {
    case VerdictKind::ack:
      return Ack{};
    case VerdictKind::abandon:
      return Abandon{.error = vocabulary::error(draft.error),
                     .delay = draft.delay,
                     .limit = draft.limit,
                     .error_kind = vocabulary::error_kind(draft.error)};
    case VerdictKind::fail:
      return Fail{.error = vocabulary::error(draft.error),
                  .error_kind = vocabulary::error_kind(draft.error),
                  .untried = draft.untried};
    case VerdictKind::release:
      return Release{draft.delay};
  }
  return Ack{};
}

OperatorAction action_of(ActionKind kind, TimePoint due_at) {
  switch (kind) {
    case ActionKind::cancel:
      return Cancel{};
    case ActionKind::run_now:
      return RunNow{};
    case ActionKind::reschedule:
      return Reschedule{due_at};
    case ActionKind::remove:
      break;
  }
  return Delete{};
}

bool looks_at_burials(const QueueOperation& operation) {
  return !std::holds_alternative<ClaimStep>(operation) &&
         !std::holds_alternative<ReapStep>(operation) &&
         !std::holds_alternative<AdvanceStep>(operation) &&
         !std::holds_alternative<ReopenStep>(operation);
}

/// Calls `once` until it did less than the limit allows, and adds up what it did.
template <class Result, class Once, class Add>
Result repeat_to_the_end(std::size_t limit, Once once, Add add) {
  Result sum;
  for (std::size_t calls = 0; calls < kNoLimit; ++calls) {
    const Result result = once();
    require(result.total() <= limit, "a call did more than its limit allows");
    add(sum, result);
    if (result.total() < limit) return sum;
  }
  throw Disagreement("a call that is repeated while there is more to do never came to an end");
}

// Stores bury in an order of their own.
ReapResult in_order(ReapResult result) {
  std::ranges::sort(result.deaths, {}, &Death::key);
  return result;
}

ReapResult reap_to_the_end(QueueStore& store, const ReapRequest& request) {
  return repeat_to_the_end<ReapResult>(
      request.limit, [&] { return store.reap(request); },
      [](ReapResult& sum, const ReapResult& result) { sum.add(result); });
}

CleanupResult cleanup_to_the_end(QueueOperator& store, const CleanupRequest& request) {
  return repeat_to_the_end<CleanupResult>(
      request.limit, [&] { return store.cleanup(request); },
      [](CleanupResult& sum, const CleanupResult& result) {
        sum.done_removed += result.done_removed;
        sum.dead_removed += result.dead_removed;
      });
}

/// Follows the pages: all but the last are full, and the last has no next.
std::vector<MessageRecord> list_to_the_end(QueueOperator& store, ListRequest request) {
  std::vector<MessageRecord> records;
  for (std::size_t pages = 0; pages < kNoLimit; ++pages) {
    const MessagePage page = store.list(request);
    records.insert(records.end(), page.records.begin(), page.records.end());
    require(page.records.size() <= request.limit, "a page is longer than its limit");
    if (!page.next) return records;
    require(page.records.size() == request.limit, "a page with a next one is not full");
    request.after = page.next;
  }
  throw Disagreement("the pages of a list never came to an end");
}

}  // namespace

QueueRun::QueueRun(Harness& harness, int max_deliveries)
    : harness_(harness), handles_{harness.open(), harness.open()} {
  for (Side* const side : {&inbox_, &outbox_}) {
    handles_[0]->policies().update(side->name, "*", {.max_deliveries = max_deliveries});
    side->model.set_max_deliveries(max_deliveries);
  }
}

QueueRun::Call QueueRun::call_on(Side& side, std::size_t handle) {
  Store& store = *handles_.at(handle);
  const bool inbox = side.name == QueueKind::inbox;
  return {.side = side,
          .handle = handle,
          .store = inbox ? store.inbox() : store.outbox(),
          .store_operator = inbox ? store.inbox_operator() : store.outbox_operator(),
          .now = harness_.now()};
}

Delivery QueueRun::delivery_of(const DeliveryRef& ref, const Side& side) {
  std::vector<Delivery> claims;
  for (const Delivery& claim : side.claims) {
    if (!ref.only_held || side.model.is_held(claim)) claims.push_back(claim);
  }
  if (claims.empty()) return {.key = vocabulary::key(0), .owner = vocabulary::owner(0)};
  const std::size_t back = std::min(ref.back, claims.size() - 1);
  return fenced(claims[claims.size() - 1 - back], ref.fence);
}

void QueueRun::apply(const QueueStep& step) {
  const Call call = call_on(step.queue == QueueKind::inbox ? inbox_ : outbox_, step.handle);
  if (looks_at_burials(step.operation)) bury_what_is_due(call);
  std::visit([&](const auto& operation) { run(call, operation); }, step.operation);
}

void QueueRun::run(const Call&, const AdvanceStep& step) { harness_.advance(step.by); }

void QueueRun::run(const Call& call, const ReopenStep&) {
  handles_.at(call.handle).reset();
  handles_.at(call.handle) = harness_.open();
}

void QueueRun::bury_what_is_due(const Call& call) {
  if (call.side.model.burial_due(call.now)) run(call, ReapStep{.limit = kNoLimit});
}

void QueueRun::run(const Call& call, const EnqueueStep& step) {
  std::vector<Message> messages;
  for (const MessageDraft& draft : step.messages) messages.push_back(message_of(draft, call.now));
  const EnqueueOptions options{.on_hash_mismatch = step.on_hash_mismatch, .on_dead = step.on_dead};
  const auto outcomes = call.store.enqueue(messages, options);
  require_same("outcomes of enqueue", outcomes,
               call.side.model.enqueue(messages, options, call.now));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!outcomes[i].quarantined_as) continue;
    call.side.quarantined.push_back({messages[i].key.source, *outcomes[i].quarantined_as});
  }
}

void QueueRun::run(const Call& call, const ObserveStep& step) {
  std::vector<Observation> observations;
  for (const ObservationDraft& draft : step.observations) {
    observations.push_back(
        {key_of(draft.key, call.side.quarantined), vocabulary::hash(draft.hash, draft.payload)});
  }
  require_same("outcomes of observe", call.store.observe(observations),
               call.side.model.observe(observations, call.now));
}

void QueueRun::run(const Call& call, const MarkStep& step) {
  std::vector<Mark> marks;
  for (const MarkDraft& draft : step.marks) {
    marks.push_back(
        {key_of(draft.key, call.side.quarantined), draft.as, vocabulary::error(draft.error)});
  }
  require_same("outcomes of mark", call.store.mark(marks), call.side.model.mark(marks, call.now));
}

void QueueRun::run(const Call& call, const ClaimStep& step) {
  const ClaimRequest request{.owner = vocabulary::owner(step.owner),
                             .lease = step.lease,
                             .limit = step.limit,
                             .max_bytes = step.max_bytes,
                             .topics = vocabulary::topic_selection(step.topics),
                             .worker = vocabulary::worker(step.owner)};
  ReapResult due = NaiveQueue(call.side.model).reap(call.now);
  const ClaimResult claimed = call.store.claim(request);
  const std::vector<ClaimedMessage> expected = call.side.model.claim(request, call.now);

  std::vector<ClaimedMessage> without_numbers = claimed.messages;
  for (ClaimedMessage& message : without_numbers) message.delivery = {};
  require_same("messages claimed", without_numbers, expected);
  require(call.side.model.adopt_deliveries(claimed),
          "a delivery number was given before, or is smaller than an earlier one: " +
              testing::PrintToString(claimed.messages));
  for (const ClaimedMessage& message : claimed) {
    call.side.claims.push_back(oncebox::delivery_of(message));
  }

  ReapResult done = claimed.reaped;
  done.add(reap_to_the_end(call.store, {.limit = kNoLimit}));
  require_same("what a claim and a reap after it reaped", in_order(std::move(done)),
               in_order(std::move(due)));
}

void QueueRun::run(const Call& call, const SettleStep& step) {
  std::vector<Settlement> settlements;
  for (const SettlementDraft& draft : step.settlements) {
    settlements.push_back({delivery_of(draft.delivery, call.side), verdict_of(draft)});
  }
  require_same("outcomes of settle", call.store.settle(settlements),
               call.side.model.settle(settlements, call.now));
}

void QueueRun::run(const Call& call, const ExtendStep& step) {
  std::vector<LeaseExtension> extensions;
  for (const ExtensionDraft& draft : step.extensions) {
    extensions.push_back({delivery_of(draft.delivery, call.side), draft.lease});
  }
  require_same("outcomes of extend", call.store.extend(extensions),
               call.side.model.extend(extensions, call.now));
}

void QueueRun::run(const Call& call, const ReapStep& step) {
  const ReapRequest request{.limit = step.limit};
  require_same("sum of reap", in_order(reap_to_the_end(call.store, request)),
               in_order(call.side.model.reap(call.now)));
}

void QueueRun::run(const Call& call, const FindStep& step) {
  const std::vector<MessageKey> keys = keys_of(step.keys, call.side.quarantined);
  std::vector<std::optional<MessageRecord>> expected;
  for (const MessageKey& key : keys) expected.push_back(call.side.model.find(key, call.now));
  require_same("records found", call.store.find(keys), expected);
}

void QueueRun::run(const Call& call, const ListStep& step) {
  const ListRequest request{.filter = filter_of(step.filter, call.now),
                            .order = step.order,
                            .payloads = step.payloads,
                            .limit = step.page};
  std::vector<MessageRecord> expected = call.side.model.list(request.filter, step.order, call.now);
  for (MessageRecord& record : expected) {
    if (record.message && step.payloads == ListPayloads::omit) record.message->payload = {};
  }
  require_same("records listed", list_to_the_end(call.store_operator, request), expected);
}

void QueueRun::run(const Call& call, const CountStep& step) {
  const MessageFilter filter = filter_of(step.filter, call.now);
  require_same("number counted", call.store_operator.count(filter),
               call.side.model.list(filter, ListOrder::oldest_first, call.now).size());
}

void QueueRun::run(const Call& call, const StatsStep&) {
  require_same("statistics", call.store_operator.stats().topics, call.side.model.stats(call.now));
  for (std::size_t place = 0; place < vocabulary::kTopicSelections; ++place) {
    compare_next_due(call, vocabulary::topic_selection(place));
  }
}

void QueueRun::compare_next_due(const Call& call, const TopicSelection& topics) {
  const std::optional<TimePoint> answer = call.store.next_due(topics);
  const NaiveQueue::DueBounds bounds = call.side.model.next_due(topics, call.now);
  const bool early_enough = !bounds.latest || (answer && *answer <= *bounds.latest);
  const bool late_enough = !answer || (bounds.earliest && *answer >= *bounds.earliest);
  require(early_enough && late_enough, "the next due time is " +
                                           testing::PrintToString(at(answer)) + ", not between " +
                                           testing::PrintToString(at(bounds.earliest)) + " and " +
                                           testing::PrintToString(at(bounds.latest)));
}

void QueueRun::run(const Call& call, const ReviveStep& step) {
  const std::vector<MessageKey> keys = keys_of(step.keys, call.side.quarantined);
  const ReviveOptions options{.delay = step.delay, .reason = vocabulary::reason(step.reason)};
  std::vector<ReviveOutcome> expected;
  for (const MessageKey& key : keys) {
    expected.push_back(call.side.model.revive(key, options, call.now));
  }
  require_same("outcomes of revive", call.store_operator.revive(keys, options), expected);
}

void QueueRun::run(const Call& call, const EditStep& step) {
  const ReviveOptions options{.delay = step.delay, .reason = vocabulary::reason(step.reason)};
  std::vector<EditedMessage> edits;
  std::vector<ReviveOutcome> expected;
  for (const EditDraft& draft : step.edits) {
    edits.push_back({.key = keys_of({draft.key}, call.side.quarantined).front(),
                     .payload = vocabulary::payload(draft.payload)});
    expected.push_back(call.side.model.revive_edited(edits.back(), options, call.now));
  }
  require_same("outcomes of edit", call.store_operator.revive_edited(edits, options), expected);
}

void QueueRun::compare_past_contents(const Call& call, const MessageKey& key) {
  std::vector<PastContent> past = call.store_operator.past_contents(key);
  for (PastContent& content : past) content.replaced_by.clear();  // some stores know it better
  require_same("past contents", past, call.side.model.past_contents(key));
}

void QueueRun::run(const Call& call, const ReviveMatchingStep& step) {
  const MessageFilter filter = filter_of(step.filter, call.now);
  const ReviveOptions options{.delay = step.delay, .reason = vocabulary::reason(step.reason)};
  require_same("number revived", call.store_operator.revive_matching(filter, options, step.limit),
               call.side.model.revive_matching(filter, options, step.limit, call.now));
}

void QueueRun::run(const Call& call, const ActStep& step) {
  const std::vector<MessageKey> keys = keys_of(step.keys, call.side.quarantined);
  const OperatorAction action = action_of(step.action, call.now + step.due);
  const ActOptions options{.reason = vocabulary::reason(step.reason),
                           .only = filter_of(step.only, call.now)};
  const std::vector<ActOutcome> expected = call.side.model.act(keys, action, options, call.now);
  require_same("outcomes of act", call.store_operator.act(keys, action, options), expected);
}

void QueueRun::run(const Call& call, const ActMatchingStep& step) {
  const MessageFilter filter = filter_of(step.filter, call.now);
  const OperatorAction action = action_of(step.action, call.now + step.due);
  const ActOptions options{.reason = vocabulary::reason(step.reason)};
  const std::size_t actable = call.store_operator.count_actable(filter, action);
  const std::size_t expected =
      call.side.model.act_matching(filter, action, options, step.limit, call.now);
  require_same("number that a dry run tells", std::min(actable, step.limit), expected);
  require_same("number changed",
               call.store_operator.act_matching(filter, action, step.limit, options), expected);
}

void QueueRun::run(const Call& call, const PurgeStep& step) {
  const std::vector<MessageKey> keys = keys_of(step.keys, call.side.quarantined);
  std::vector<PurgeOutcome> expected;
  for (const MessageKey& key : keys) expected.push_back(call.side.model.purge(key));
  require_same("outcomes of purge", call.store_operator.purge(keys), expected);
}

void QueueRun::run(const Call& call, const PurgeMatchingStep& step) {
  const MessageFilter filter = filter_of(step.filter, call.now);
  require_same("number purged", call.store_operator.purge_matching(filter, step.limit),
               call.side.model.purge_matching(filter, step.limit, call.now));
}

void QueueRun::run(const Call& call, const CleanupStep& step) {
  const CleanupRequest request{.done_retention = step.done_retention,
                               .dead_retention = step.dead_retention,
                               .limit = step.limit};
  require_same("sum of cleanup", cleanup_to_the_end(call.store_operator, request),
               call.side.model.cleanup(request, call.now));
}

void QueueRun::compare_state(const Call& call) {
  bury_what_is_due(call);
  for (const ListOrder order : {ListOrder::oldest_first, ListOrder::newest_first}) {
    run(call,
        ListStep{
            .filter = {}, .order = order, .payloads = ListPayloads::include, .page = kNoLimit});
  }
  run(call, StatsStep{});
  FindStep every_key;
  for (KeyPlace place = 0; place < vocabulary::kKeys + call.side.quarantined.size(); ++place) {
    every_key.keys.push_back(place);
  }
  run(call, every_key);
  for (const MessageKey& key : keys_of(every_key.keys, call.side.quarantined)) {
    compare_past_contents(call, key);
  }
}

void QueueRun::compare_states() {
  compare_state(call_on(inbox_, 0));
  compare_state(call_on(outbox_, 1));
}

void run_queue_sequence(Harness& harness, const QueueSequence& sequence) {
  QueueRun run(harness, sequence.max_deliveries);
  run_steps(run, sequence.steps);
}

}  // namespace oncebox::conformance
