#include "http_queue.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "oncebox/limits.hpp"
#include "oncebox/wire/edit_json.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/queue_json.hpp"
#include "oncebox/wire/worker_json.hpp"

namespace oncebox::http {

namespace {

// Everything is said, so that no default of the service decides; and a hash or a header that is not
// there is not made up.
std::string enqueue_query(const EnqueueOptions& options) {
  std::string query = "?missingHash=Leave&missingHeaders=Leave&onHashMismatch=";
  switch (options.on_hash_mismatch) {
    case HashMismatchPolicy::warn:
      query += "Warn";
      break;
    case HashMismatchPolicy::reject:
      query += "Reject";
      break;
    case HashMismatchPolicy::quarantine:
      query += "Quarantine";
      break;
    case HashMismatchPolicy::keep_first:
      query += "KeepFirst";
      break;
  }
  return query + (options.on_dead == DeadPolicy::revive ? "&onDead=Revive" : "&onDead=Keep");
}

// `items` have payloads; without a limit of our own the service decides.
template <class Item>
void require_payload_sizes(std::span<const Item> items, std::optional<std::size_t> most) {
  for (const Item& item : items) {
    if (most) require_payload_size(item.payload.size(), *most);
  }
}

std::vector<ActOutcome> read_purged_as_acted(std::string_view json) {
  std::vector<ActOutcome> outcomes;
  for (const PurgeOutcome outcome : wire::read_purged(json)) {
    outcomes.push_back(outcome == PurgeOutcome::purged     ? ActOutcome::changed
                       : outcome == PurgeOutcome::not_dead ? ActOutcome::refused
                                                           : ActOutcome::unknown);
  }
  return outcomes;
}

std::string path_of(const OperatorAction& action) {
  if (std::holds_alternative<Purge>(action)) return "/dead/purge";
  std::string name(name_of(action));
  std::ranges::replace(name, '_', '-');
  return "/messages/" + name;
}

}  // namespace

ApiCall HttpQueue::post(std::string_view path, std::string body, Effect effect) const {
  return {.path = fmt::format("{}/messages{}", prefix_, path),
          .body = std::move(body),
          .effect = effect};
}

std::vector<EnqueueOutcome> HttpQueue::do_enqueue(std::span<const Message> messages,
                                                  const EnqueueOptions& options) {
  require_payload_sizes(messages, client_.options().max_payload_bytes);
  const ApiCall call =
      post(enqueue_query(options), wire::write_messages(messages), Effect::repeats);
  return client_.call_batch(call, messages.size(), wire::read_enqueued);
}

std::vector<ObserveOutcome> HttpQueue::do_observe(std::span<const Observation> observations) {
  // Not repeated: whoever acts on "unseen" would not act on the "seen" that its own first try made.
  const ApiCall call = post("/observe", wire::write_observations(observations), Effect::changes);
  return client_.call_batch(call, observations.size(), wire::read_observed);
}

std::vector<MarkOutcome> HttpQueue::do_mark(std::span<const Mark> marks) {
  // Processing ends a lease, also one that somebody got since the first try.
  const bool ends_leases = std::any_of(
      marks.begin(), marks.end(), [](const Mark& mark) { return mark.as == MarkAs::processing; });
  const ApiCall call =
      post("/mark", wire::write_marks(marks), ends_leases ? Effect::changes : Effect::repeats);
  return client_.call_batch(call, marks.size(), wire::read_marked);
}

ClaimResult HttpQueue::do_claim(const ClaimRequest& request) {
  wire::ClaimCall claim{.request = request};
  claim.request.worker = worker_of(request);
  const ApiCall call = post("/claim", wire::write_claim(claim), Effect::changes);
  return client_.call(call, wire::read_claimed);
}

std::vector<SettleOutcome> HttpQueue::do_settle(std::span<const Settlement> settlements) {
  // Not repeated: the second answer would be that the lease is lost.
  const ApiCall call = post("/settle", wire::write_settlements(settlements), Effect::changes);
  return client_.call_batch(call, settlements.size(), wire::read_settled);
}

std::vector<ExtendOutcome> HttpQueue::do_extend(std::span<const LeaseExtension> extensions) {
  const ApiCall call = post("/extend", wire::write_extensions(extensions), Effect::repeats);
  return client_.call_batch(call, extensions.size(), wire::read_extended);
}

ReapResult HttpQueue::do_reap(const ReapRequest& request) {
  return client_.call(post("/reap", wire::write_reap(request), Effect::changes), wire::read_reaped);
}

std::optional<TimePoint> HttpQueue::do_next_due(const TopicSelection& topics) {
  return client_.call(post("/next-due", wire::write_topics(topics), Effect::reads),
                      wire::read_next_due);
}

void HttpQueue::do_listen(std::weak_ptr<WorkListener> listener) {
  listeners_.add(std::move(listener));
  start_listening_();
}

std::vector<std::optional<MessageRecord>> HttpQueue::do_find(std::span<const MessageKey> keys,
                                                             const FindOptions& options) {
  const wire::FindCall find{.keys = {keys.begin(), keys.end()}, .options = options};
  return client_.call_some(post("/find", wire::write_find(find), Effect::reads), keys.size(),
                           wire::read_found);
}

// The operator ------------------------------------------------------------------------------------

MessagePage HttpQueueOperator::do_list(const ListRequest& request) {
  const ApiCall call{
      .method = Method::get,
      .path = fmt::format("{}/messages?{}", prefix_, wire::write_list_query(request)),
      .effect = Effect::reads};
  return client_.call(call, wire::read_page);
}

std::size_t HttpQueueOperator::do_count(const MessageFilter& filter) {
  const ApiCall call{.path = prefix_ + "/messages/count",
                     .body = wire::write_filter(filter),
                     .effect = Effect::reads};
  return client_.call(call, wire::read_count);
}

QueueStats HttpQueueOperator::do_stats() {
  QueueStats stats;
  wire::StatsQuery query{.limit = wire::kMaxStatsTopics};
  do {
    const ApiCall call{.method = Method::get,
                       .path = fmt::format("{}/stats?{}", prefix_, wire::write_stats_query(query)),
                       .effect = Effect::reads};
    wire::StatsPage page = client_.call(call, wire::read_stats_page);
    // A server that gives the same page again and again must not hold up the caller for ever.
    if (query.after && page.after && *page.after <= *query.after) break;
    std::ranges::move(page.topics, std::back_inserter(stats.topics));
    query.after = std::move(page.after);
  } while (query.after);
  return stats;
}

std::vector<WorkerRecord> HttpQueueOperator::do_workers() {
  const ApiCall call{.method = Method::get, .path = prefix_ + "/workers", .effect = Effect::reads};
  return client_.call(call, wire::read_workers);
}

std::vector<ReviveOutcome> HttpQueueOperator::do_revive(std::span<const MessageKey> keys,
                                                        const ReviveOptions& options) {
  const wire::ReviveCall revival{.which = std::vector<MessageKey>(keys.begin(), keys.end()),
                                 .options = options};
  const ApiCall call{.path = prefix_ + "/dead/revive", .body = wire::write_revive(revival)};
  return client_.call_batch(call, keys.size(), wire::read_revived);
}

std::size_t HttpQueueOperator::do_revive_matching(const MessageFilter& filter,
                                                  const ReviveOptions& options, std::size_t limit) {
  const wire::ReviveCall revival{.which = filter, .options = options, .limit = limit};
  return client_.call({.path = prefix_ + "/dead/revive", .body = wire::write_revive(revival)},
                      wire::read_count);
}

std::vector<ReviveOutcome> HttpQueueOperator::do_revive_edited(std::span<const EditedMessage> edits,
                                                               const ReviveOptions& options) {
  require_payload_sizes(edits, client_.options().max_payload_bytes);
  const ApiCall call{.path = prefix_ + "/dead/edit", .body = wire::write_edit(edits, options)};
  return client_.call_batch(call, edits.size(), wire::read_revived);
}

std::vector<PastContent> HttpQueueOperator::do_past_contents(const MessageKey& key) {
  const ApiCall call{
      .method = Method::get,
      .path = fmt::format("{}/dead/{}/{}/history", prefix_, wire::percent_encode(key.source.str()),
                          wire::percent_encode(key.message_id.str())),
      .effect = Effect::reads};
  return client_.call(call, wire::read_past_contents);
}

std::vector<ActOutcome> HttpQueueOperator::do_act(std::span<const MessageKey> keys,
                                                  const OperatorAction& action,
                                                  const ActOptions& options) {
  const wire::ActCall act{.which = std::vector<MessageKey>(keys.begin(), keys.end()),
                          .action = action,
                          .options = options};
  const bool is_purge = std::holds_alternative<Purge>(action);
  return client_.call_batch({.path = prefix_ + path_of(action), .body = wire::write_act(act)},
                            keys.size(), is_purge ? read_purged_as_acted : wire::read_acted);
}

std::size_t HttpQueueOperator::do_act_matching(const MessageFilter& filter,
                                               const OperatorAction& action, std::size_t limit,
                                               const ActOptions& options) {
  const wire::ActCall act{.which = filter, .action = action, .options = options, .limit = limit};
  return client_.call({.path = prefix_ + path_of(action), .body = wire::write_act(act)},
                      wire::read_count);
}

CleanupResult HttpQueueOperator::do_cleanup(const CleanupRequest& request) {
  const wire::CleanupCall cleanup{.queue = request, .keys = false};
  return client_
      .call({.path = prefix_ + "/cleanup", .body = wire::write_cleanup(cleanup)},
            wire::read_cleaned_up)
      .queue;
}

}  // namespace oncebox::http
