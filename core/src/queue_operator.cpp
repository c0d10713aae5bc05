#include "oncebox/queue_operator.hpp"

#include <algorithm>
#include <utility>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/topic_policy.hpp"
#include "valid_calls.hpp"

namespace oncebox {

namespace {

template <class Value>
bool contains(const std::vector<Value>& values, Value value) noexcept {
  return std::find(values.begin(), values.end(), value) != values.end();
}

void require_filter(const MessageFilter& filter) {
  if (!filter.waiting_for.empty() && !filter.states.empty() &&
      !contains(filter.states, State::waiting)) {
    throw Error(ErrorCode::invalid_argument,
                "what messages wait for is asked, but the states leave waiting out; add waiting or "
                "leave the states out");
  }
  if (filter.error_contains) {
    require_in_range("length of the error filter", filter.error_contains->size(), 1,
                     limits::kMaxErrorBytes);
  }
}

void require_dead_filter(const MessageFilter& filter) {
  require_filter(filter);
  const bool wants_others =
      std::ranges::any_of(filter.statuses, [](Status status) { return status != Status::dead; }) ||
      std::ranges::any_of(filter.states, [](State state) { return state != State::dead; }) ||
      !filter.waiting_for.empty();
  if (wants_others) {
    throw Error(ErrorCode::invalid_argument,
                "only dead messages can be revived or purged; leave status and state out of the "
                "filter");
  }
}

void require_action(const OperatorAction& action) {
  if (const auto* reschedule = std::get_if<Reschedule>(&action)) {
    require_schedule(reschedule->due_at, std::nullopt);
  }
}

void require_retention(std::string_view what, Duration retention) {
  require_in_range(what, retention, Duration{0}, limits::kMaxRetention);
}

template <class T>
std::optional<T> earlier(const std::optional<T>& a, const std::optional<T>& b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

bool MessageFilter::wants(State state, std::optional<WaitingFor> waits_for) const noexcept {
  if (!statuses.empty() && !contains(statuses, status_of(state))) return false;
  if (states.empty() && waiting_for.empty()) return true;
  const bool is_named = states.empty() ? state == State::waiting : contains(states, state);
  if (!is_named || !waits_for || waiting_for.empty()) return is_named;
  return contains(waiting_for, *waits_for);
}

std::optional<MessageFilter> MessageFilter::narrowed_to(const OperatorAction& action) const {
  MessageFilter narrow = *this;
  narrow.statuses.clear();
  narrow.states.clear();
  narrow.waiting_for.clear();
  const auto is_meant = [&](State state, std::optional<WaitingFor> waits_for) {
    return wants(state, waits_for) && applies_to(action, state, waits_for);
  };
  for (const WaitingFor what : kEveryWaitingFor) {
    if (is_meant(State::waiting, what)) narrow.waiting_for.push_back(what);
  }
  if (!narrow.waiting_for.empty()) narrow.states.push_back(State::waiting);
  for (const State state : kEveryState) {
    if (state != State::waiting && is_meant(state, std::nullopt)) narrow.states.push_back(state);
  }
  if (narrow.states.empty()) return std::nullopt;
  if (const auto* reschedule = std::get_if<Reschedule>(&action)) {
    narrow.expires_after = std::max(expires_after.value_or(reschedule->due_at), reschedule->due_at);
  }
  return narrow;
}

std::size_t& WaitingCounts::of(WaitingFor what) noexcept {
  switch (what) {
    case WaitingFor::content:
      return content;
    case WaitingFor::partition:
      return partition;
    case WaitingFor::due:
      return due;
    case WaitingFor::backoff:
      return backoff;
    case WaitingFor::pause:
      break;
  }
  return pause;
}

WaitingCounts& WaitingCounts::operator+=(const WaitingCounts& more) noexcept {
  content += more.content;
  partition += more.partition;
  due += more.due;
  backoff += more.backoff;
  pause += more.pause;
  return *this;
}

bool MessageFilter::matches(const Subject& subject) const {
  if (!wants(subject.state, subject.waiting_for)) return false;
  if (topic && !(subject.topic != nullptr && topic->matches(subject.topic->str()))) return false;
  if (source && subject.key.source != *source) return false;
  if (message_id && subject.key.message_id != *message_id) return false;
  if (partition_key &&
      !(subject.partition_key != nullptr && *subject.partition_key == *partition_key)) {
    return false;
  }
  const std::optional<std::string>& error = subject.history.last_error;
  if (error_contains && !(error && error->find(*error_contains) != std::string::npos)) {
    return false;
  }
  if (!first_seen.contains(subject.history.first_seen_at)) return false;
  if (expires_after && subject.expires_at && *subject.expires_at <= *expires_after) return false;
  const bool any_finish = !finished.from && !finished.until;
  return any_finish || (subject.finished_at && finished.contains(*subject.finished_at));
}

bool MessageFilter::matches(const MessageRecord& record) const {
  const Message* const message = record.message ? &*record.message : nullptr;
  const bool partitioned = message != nullptr && message->partition_key;
  return matches(Subject{.key = record.key,
                         .state = record.state,
                         .waiting_for = record.waiting_for,
                         .topic = message != nullptr ? &message->topic : nullptr,
                         .partition_key = partitioned ? &*message->partition_key : nullptr,
                         .history = record.history,
                         .finished_at = record.finished_at,
                         .expires_at = message != nullptr ? message->expires_at : std::nullopt});
}

TopicStats QueueStats::total() const {
  TopicStats sum;
  for (const TopicStats& topic : topics) {
    sum.seen += topic.seen;
    sum.waiting += topic.waiting;
    sum.ready += topic.ready;
    sum.leased += topic.leased;
    sum.done += topic.done;
    sum.dead += topic.dead;
    sum.oldest_ready_at = earlier(sum.oldest_ready_at, topic.oldest_ready_at);
    sum.oldest_dead_at = earlier(sum.oldest_dead_at, topic.oldest_dead_at);
  }
  return sum;
}

MessageFilter only_dead(MessageFilter filter) {
  filter.statuses.clear();
  filter.states = {State::dead};
  return filter;
}

void count_pauses(QueueStats& stats, std::span<const TopicPattern> paused) noexcept {
  if (paused.empty()) return;
  for (TopicStats& topic : stats.topics) {
    if (!topic.topic || !is_paused(paused, topic.topic->str())) continue;
    topic.waiting.pause += std::exchange(topic.ready, 0);
    topic.oldest_ready_at.reset();
  }
}

MessagePage QueueOperator::list(const ListRequest& request, const CallOptions& call) {
  require_filter(request.filter);
  require_in_range("list limit", request.limit, 1, limits::kMaxListItems);
  require_in_range("bytes of a list", request.max_bytes, 1, limits::kMaxClaimBytes);
  require_cursor(request.after);
  const CallScope scope(call);
  return do_list(request);
}

std::size_t QueueOperator::count(const MessageFilter& filter, const CallOptions& call) {
  require_filter(filter);
  const CallScope scope(call);
  return do_count(filter);
}

QueueStats QueueOperator::stats(const CallOptions& call) {
  const CallScope scope(call);
  return do_stats();
}

std::vector<WorkerRecord> QueueOperator::workers(const CallOptions& call) {
  const CallScope scope(call);
  std::vector<WorkerRecord> workers = do_workers();
  std::ranges::sort(workers, {}, &WorkerRecord::name);
  return workers;
}

std::vector<ReviveOutcome> QueueOperator::revive(std::span<const MessageKey> keys,
                                                 const ReviveOptions& options,
                                                 const CallOptions& call) {
  require_in_range("number of items in one call", keys.size(), 0, limits::kMaxBatchItems);
  require_in_range("delay of a revival", options.delay, Duration{0}, limits::kMaxDelay);
  if (keys.empty()) return {};
  const CallScope scope(call);
  return do_revive(keys, options);
}

std::size_t QueueOperator::revive_matching(const MessageFilter& filter,
                                           const ReviveOptions& options, std::size_t limit,
                                           const CallOptions& call) {
  require_dead_filter(filter);
  require_in_range("delay of a revival", options.delay, Duration{0}, limits::kMaxDelay);
  require_in_range("revive limit", limit, 1, limits::kMaxBatchItems);
  const CallScope scope(call);
  return do_revive_matching(filter, options, limit);
}

std::vector<ReviveOutcome> QueueOperator::revive_edited(std::span<const EditedMessage> edits,
                                                        const ReviveOptions& options,
                                                        const CallOptions& call) {
  require_in_range("number of items in one call", edits.size(), 0, limits::kMaxBatchItems);
  require_in_range("delay of a revival", options.delay, Duration{0}, limits::kMaxDelay);
  if (edits.empty()) return {};
  const CallScope scope(call);
  return do_revive_edited(edits, options);
}

std::vector<PastContent> QueueOperator::past_contents(const MessageKey& key,
                                                      const CallOptions& call) {
  const CallScope scope(call);
  return do_past_contents(key);
}

std::vector<ActOutcome> QueueOperator::act(std::span<const MessageKey> keys,
                                           const OperatorAction& action, const ActOptions& options,
                                           const CallOptions& call) {
  require_in_range("number of items in one call", keys.size(), 0, limits::kMaxBatchItems);
  require_action(action);
  if (options.only) require_filter(*options.only);
  if (keys.empty()) return {};
  const CallScope scope(call);
  return do_act(keys, action, options);
}

std::size_t QueueOperator::act_matching(const MessageFilter& filter, const OperatorAction& action,
                                        std::size_t limit, const ActOptions& options,
                                        const CallOptions& call) {
  require_filter(filter);
  require_action(action);
  require_in_range("limit of messages to change", limit, 1, limits::kMaxBatchItems);
  if (options.only) {
    throw Error(ErrorCode::invalid_argument,
                "`only` narrows a call by keys; here one filter says which messages are meant");
  }
  const std::optional<MessageFilter> narrow = filter.narrowed_to(action);
  if (!narrow) return 0;
  const CallScope scope(call);
  return do_act_matching(*narrow, action, limit, options);
}

std::size_t QueueOperator::count_actable(const MessageFilter& filter, const OperatorAction& action,
                                         const CallOptions& call) {
  require_filter(filter);
  const std::optional<MessageFilter> narrow = filter.narrowed_to(action);
  if (!narrow) return 0;
  const CallScope scope(call);
  return do_count(*narrow);
}

std::vector<PurgeOutcome> QueueOperator::purge(std::span<const MessageKey> keys,
                                               const PurgeOptions& options,
                                               const CallOptions& call) {
  std::vector<PurgeOutcome> outcomes;
  outcomes.reserve(keys.size());  // nothing may fail after the change
  const ActOptions those{.reason = options.reason, .only = options.only};
  for (const ActOutcome outcome : act(keys, Purge{}, those, call)) {
    outcomes.push_back(outcome == ActOutcome::changed   ? PurgeOutcome::purged
                       : outcome == ActOutcome::refused ? PurgeOutcome::not_dead
                                                        : PurgeOutcome::unknown);
  }
  return outcomes;
}

std::size_t QueueOperator::purge_matching(const MessageFilter& filter, std::size_t limit,
                                          const PurgeOptions& options, const CallOptions& call) {
  require_dead_filter(filter);
  return act_matching(filter, Purge{}, limit, {.reason = options.reason, .only = options.only},
                      call);
}

CleanupResult QueueOperator::cleanup(const CleanupRequest& request, const CallOptions& call) {
  require_retention("retention of done messages", request.done_retention);
  if (request.dead_retention) {
    require_retention("retention of dead messages", *request.dead_retention);
  }
  require_in_range("cleanup limit", request.limit, 1, limits::kMaxBatchItems);
  const CallScope scope(call);
  return do_cleanup(request);
}

std::variant<std::monostate, MessageRecord, Ambiguous> find_by_id(QueueOperator& queue,
                                                                  const MessageId& message_id,
                                                                  const CallOptions& call) {
  MessagePage page = queue.list(
      {.filter = {.message_id = message_id}, .payloads = ListPayloads::include, .limit = 2}, call);
  if (page.records.empty()) return std::monostate{};
  // Two large messages may not fit into one page.
  if (page.records.size() > 1 || page.next) return Ambiguous{};
  return std::move(page.records.front());
}

}  // namespace oncebox
