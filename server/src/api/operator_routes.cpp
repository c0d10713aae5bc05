#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "api/answer_hold.hpp"
#include "api/answer_size.hpp"
#include "api/api_json.hpp"
#include "api/api_routes.hpp"
#include "api/audit_calls.hpp"
#include "api/call_limits.hpp"
#include "api/dead_calls.hpp"
#include "oncebox/error.hpp"
#include "oncebox/operate/message_actions.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/policy_json.hpp"
#include "oncebox/wire/worker_json.hpp"

/// What an operator does with queues: look, bring back, remove, pause.
namespace oncebox::server {

namespace {

/// Messages that one transaction changes.
constexpr std::size_t kBatch = 1'000;
/// That one call does.
constexpr std::size_t kMaxLimit = 1'000'000;

MessageFilter dead_only(MessageFilter filter) {
  const auto is_other = [](Status status) { return status != Status::dead; };
  const auto is_other_state = [](State state) { return state != State::dead; };
  if (std::ranges::any_of(filter.statuses, is_other)) {
    throw Error(ErrorCode::invalid_argument, "status: only Dead can be asked for here");
  }
  if (std::ranges::any_of(filter.states, is_other_state) || !filter.waiting_for.empty()) {
    throw Error(ErrorCode::invalid_argument, "state: only Dead can be asked for here");
  }
  return only_dead(std::move(filter));
}

Response list_page(const QueueCall& call, ListRequest request) {
  CallLimits(call.request()).narrow(request.filter);
  AnswerHold hold = AnswerHold::for_look(*call.exchange, request.max_bytes);
  request.max_bytes = hold.max_bytes();
  const MessagePage page = call.queue->operations.list(request);
  hold.count(wire::json_size(page, request.payloads));
  return std::move(hold).answer(wire::write_page(page, request.payloads));
}

Response count_matching(const QueueCall& call) {
  require_no_query(call.request());
  MessageFilter filter = wire::read_filter(body_or_empty_object(call.request()));
  CallLimits(call.request()).narrow(filter);
  return json_response(wire::write_count(call.queue->operations.count(filter)));
}

/// The page that a request asks for, of the topics that its token may see.
Response stats_page(const QueueStats& stats, const Request& request) {
  const wire::StatsQuery query = wire::read_stats_query(request.query);
  const CallLimits limits(request);
  if (limits.allow_all_messages()) return json_response(wire::write_stats_page(stats, query));
  QueueStats own = stats;
  limits.narrow(own);
  return json_response(wire::write_stats_page(own, query));
}

/// The same answer to every request.
auto always(std::string body) {
  return [body = std::move(body)](const Request&) { return json_response(body); };
}

/// Repeats `step(limit)`, which answers how many it changed, until as many are as match now. What
/// comes to match meanwhile is not meant: a message that fails again at once would never end this.
template <class Step>
std::size_t in_batches(std::size_t matching, const Presence& present, Step step) {
  std::size_t changed = 0;
  while (changed < matching && *present) {
    const std::size_t batch = std::min(kBatch, matching - changed);
    std::size_t got = 0;
    try {
      got = step(batch);
    } catch (const Error& error) {
      if (changed == 0) throw;
      // Nobody may take it for a call that changed nothing.
      throw Error(ErrorCode::outcome_unknown,
                  fmt::format("{} messages were changed, then: {}", changed, error.what()));
    }
    changed += got;
    if (got < batch) break;
  }
  return changed;
}

/// Whether a call by keys with this filter beside them means a message.
bool means(const std::optional<MessageFilter>& only, const MessageRecord& record) {
  return !only || only->matches(record);
}

std::size_t count_dead(ServedQueue& queue, const wire::MessageSelection& which, std::size_t limit,
                       const std::optional<MessageFilter>& only = {}) {
  if (const auto* filter = std::get_if<MessageFilter>(&which)) {
    return std::min(limit, queue.operations.count(dead_only(*filter)));
  }
  return count_found(queue.queue, std::get<std::vector<MessageKey>>(which),
                     [&](const MessageRecord& record) {
                       return record.status == Status::dead && means(only, record);
                     });
}

std::string revive(const QueueCall& asked, const Presence& present) {
  ServedQueue& queue = *asked.queue;
  wire::ReviveCall call = wire::read_revive(asked.request().body);
  call.options.actor = asked.request().principal.name;
  CallLimits(asked.request()).narrow(queue.queue, call.which);
  require_in_range("limit", call.limit, 1, kMaxLimit);
  const AuditEntry entry = queue_entry(
      asked, AuditAction::revive, wire::audit_subject(call.which, call.group), call.options.reason);
  if (call.group || call.pace.per_second) return revive_paced(queue, call, entry, present);
  if (call.dry_run) return wire::write_matched(count_dead(queue, call.which, call.limit), true);
  AuditTrail& trail = queue.store.audit();
  if (const auto* keys = std::get_if<std::vector<MessageKey>>(&call.which)) {
    return wire::write_revived(audited(
        trail, entry, [&] { return queue.operations.revive(*keys, call.options); },
        counting(ReviveOutcome::revived)));
  }
  const MessageFilter& filter = std::get<MessageFilter>(call.which);
  const auto step = [&](std::size_t batch) {
    return queue.operations.revive_matching(filter, call.options, batch);
  };
  return wire::write_matched(
      audited(
          trail, entry,
          [&] { return in_batches(count_dead(queue, call.which, call.limit), present, step); },
          std::identity()),
      false);
}

/// How many messages of a call an action would change.
std::size_t count_actable(ServedQueue& queue, const wire::ActCall& call) {
  if (const auto* filter = std::get_if<MessageFilter>(&call.which)) {
    return std::min(call.limit, queue.operations.count_actable(*filter, call.action));
  }
  return count_found(queue.queue, std::get<std::vector<MessageKey>>(call.which),
                     [&](const MessageRecord& record) {
                       return applies_to(call.action, record) && means(call.options.only, record);
                     });
}

/// By keys one outcome for each, by a filter how many.
std::variant<std::vector<ActOutcome>, std::size_t> act(const QueueCall& asked,
                                                       const wire::ActCall& call,
                                                       const AuditEntry& entry,
                                                       const Presence& present) {
  ServedQueue& queue = *asked.queue;
  RequestQueue for_request = queue.for_request(asked.request());
  QueueOperator& operations = for_request.operations();
  AuditTrail& trail = queue.store.audit();
  if (const auto* keys = std::get_if<std::vector<MessageKey>>(&call.which)) {
    return audited(
        trail, entry, [&] { return operations.act(*keys, call.action, call.options); },
        counting(ActOutcome::changed));
  }
  // As many as match now: what comes meanwhile is not meant.
  const auto act_on_those_that_match = [&] {
    return act_on_all(operations, std::get<MessageFilter>(call.which), call.action,
                      count_actable(queue, call), call.options, while_there(present));
  };
  return audited(trail, entry, act_on_those_that_match, std::identity());
}

std::string answer_act(const QueueCall& asked, const Presence& present,
                       const OperatorAction& action) {
  ServedQueue& queue = *asked.queue;
  wire::ActCall call = wire::read_act(asked.request().body, action);
  CallLimits(asked.request()).narrow(queue.queue, call.which);
  require_in_range("limit", call.limit, 1, kMaxLimit);
  if (call.dry_run) return wire::write_matched(count_actable(queue, call), true);
  const AuditEntry entry =
      queue_entry(asked, audit_action(call.action), wire::audit_subject(call), call.options.reason);
  const auto result = act(asked, call, entry, present);
  if (const auto* outcomes = std::get_if<std::vector<ActOutcome>>(&result)) {
    return wire::write_acted(*outcomes);
  }
  return wire::write_matched(std::get<std::size_t>(result), false);
}

std::string purge(const QueueCall& asked, const Presence& present) {
  ServedQueue& queue = *asked.queue;
  wire::PurgeCall call = wire::read_purge(asked.request().body);
  CallLimits(asked.request()).narrow(queue.queue, call.which);
  require_in_range("limit", call.limit, 1, kMaxLimit);
  const AuditEntry entry = queue_entry(
      asked, AuditAction::purge, wire::audit_subject(call.which, call.group, call.options.only),
      call.options.reason);
  if (call.group) return purge_group(queue, call, entry, present);
  if (call.dry_run) {
    return wire::write_matched(count_dead(queue, call.which, call.limit, call.options.only), true);
  }
  if (const auto* keys = std::get_if<std::vector<MessageKey>>(&call.which)) {
    return wire::write_purged(audited(
        queue.store.audit(), entry, [&] { return queue.operations.purge(*keys, call.options); },
        counting(PurgeOutcome::purged)));
  }
  const wire::ActCall removal{.which = dead_only(std::get<MessageFilter>(call.which)),
                              .action = Purge{},
                              .options = {.reason = call.options.reason},
                              .limit = call.limit};
  return wire::write_matched(std::get<std::size_t>(act(asked, removal, entry, present)), false);
}

std::string clean_up(const QueueCall& asked, const RetentionOptions& retention) {
  ServedQueue& queue = *asked.queue;
  const wire::CleanupCall call =
      wire::read_cleanup(body_or_empty_object(asked.request()),
                         {.done_retention = retention.done, .dead_retention = retention.dead});
  wire::CleanupCall selected = call;
  selected.queue.reason.clear();
  const auto clean = [&] {
    wire::CleanedUp result{.queue = queue.operations.cleanup(call.queue)};
    if (call.keys) result.keys_removed = queue.store.keys().cleanup(call.queue.limit);
    return result;
  };
  const auto count = [](const wire::CleanedUp& result) {
    return result.queue.total() + result.keys_removed;
  };
  return wire::write_cleaned_up(audited(
      queue.store.audit(),
      queue_entry(asked, AuditAction::cleanup, wire::write_cleanup(selected), call.queue.reason),
      clean, count));
}

/// Answers what the rule says now.
TopicPolicy update_policy(const QueueCall& asked, const wire::PolicyCall& call) {
  PolicyStore& policies = asked.queue->store.policies();
  const QueueKind kind = asked.queue->kind;
  const TopicPolicy before = policies.policies(kind).rule_of(call.topic);
  const auto change = [&] { return policies.update(kind, call.topic, call.change); };
  const auto count = [&](const TopicPolicy& after) -> std::size_t { return after != before; };
  return audited(asked.queue->store.audit(),
                 queue_entry(asked, audit_action_of(call.change),
                             wire::audit_subject(call.topic, call.change), call.reason),
                 change, count);
}

std::string paused_of(const ServedQueue& queue) {
  return wire::write_paused(queue.store.policies().policies(queue.kind).paused());
}

std::string pause(const QueueCall& asked, bool paused) {
  const wire::TopicCall call = wire::read_topic_call(asked.request().body);
  update_policy(asked, {call.topic, {.paused = paused}, call.reason});
  return paused_of(*asked.queue);
}

std::string set_policy(const QueueCall& asked) {
  const wire::PolicyCall call = wire::read_policy_call(asked.request().body);
  return wire::write_policy({call.topic, update_policy(asked, call)});
}

std::string remove_policy(const QueueCall& asked) {
  const wire::TopicCall call = wire::read_topic_call(asked.request().body);
  const auto change = [&] {
    const bool removed = asked.queue->store.policies().remove(asked.queue->kind, call.topic);
    return removed ? std::size_t{1} : std::size_t{0};
  };
  const AuditEntry entry =
      queue_entry(asked, AuditAction::set_policy, wire::audit_removal(call.topic), call.reason);
  return wire::write_count(audited(asked.queue->store.audit(), entry, change, std::identity()));
}

Response get_dead(const QueueCall& call) {
  const MessageKey key{call.arguments[0], call.arguments[1]};
  CallLimits(call.request()).require(call.queue->queue, {&key, 1});
  AnswerHold hold = AnswerHold::for_look(*call.exchange);
  const std::optional<MessageRecord> record = call.queue->queue.find(key);
  if (!record || record->status != Status::dead) {
    throw Error(ErrorCode::not_found, "there is no dead message with this source and id");
  }
  return record_answer(std::move(hold), *record);
}

/// Adds routes whose `make` runs on a thread that may wait.
class OperatorRoutes {
 public:
  OperatorRoutes(Router& router, const ApiContext& context) : router_(router), context_(context) {}

  void add_lists() {
    add_look({.path = "/messages", .limits = HeldLimits::all}, [](const QueueCall& call) {
      return list_page(call, wire::read_list_query(call.request().query));
    });
    add_look({.path = "/dead", .limits = HeldLimits::all}, [](const QueueCall& call) {
      ListRequest request = wire::read_list_query(call.request().query);
      request.filter = dead_only(std::move(request.filter));
      return list_page(call, std::move(request));
    });
    add_look({.path = "/dead/{source}/{messageId}", .limits = HeldLimits::all},
             [](const QueueCall& call) {
               require_no_query(call.request());
               return get_dead(call);
             });
    add_look({.method = Method::post, .path = "/messages/count", .limits = HeldLimits::all},
             count_matching);
    add_shared(
        {.path = "/stats", .limits = HeldLimits::all}, &SharedAnswers::stats,
        [](const Request& request) { (void)wire::read_stats_query(request.query); },
        [](const ServedQueue& queue) {
          return [stats = queue.operations.stats()](const Request& request) {
            return stats_page(stats, request);
          };
        });
    add_shared({.path = "/workers"}, &SharedAnswers::workers, require_no_query,
               [](const ServedQueue& queue) {
                 return always(wire::write_workers(queue.operations.workers()));
               });
  }

  void add_changes() {
    add_watched("/dead/revive", revive);
    add_watched("/dead/purge", purge);
    add_act("/messages/cancel", Cancel{});
    add_act("/messages/run-now", RunNow{});
    add_act("/messages/reschedule", Reschedule{});
    add_act("/messages/delete", Delete{});
    add({Method::post, "/cleanup", Scope::operate},
        [&options = context_.parts.options](const QueueCall& call) {
          require_no_query(call.request());
          return clean_up(call, options.retention);
        });
  }

  void add_policies() {
    add_shared({.path = "/topics/policies"}, &SharedAnswers::policies, require_no_query,
               [](const ServedQueue& queue) {
                 const TopicPolicies policies = queue.store.policies().policies(queue.kind);
                 return always(wire::write_policies(policies.rules()));
               });
    add_plain({Method::post, "/topics/policies", Scope::operate}, set_policy);
    add_plain({Method::post, "/topics/policies/remove", Scope::operate}, remove_policy);
    add_shared({.path = "/topics/paused"}, &SharedAnswers::paused, require_no_query,
               [](const ServedQueue& queue) { return always(paused_of(queue)); });
    add_plain({Method::post, "/topics/pause", Scope::operate},
              [](const QueueCall& call) { return pause(call, true); });
    add_plain({Method::post, "/topics/resume", Scope::operate},
              [](const QueueCall& call) { return pause(call, false); });
  }

 private:
  /// A route without a query.
  template <class Make>
  void add_plain(const ApiRoute& route, Make make) {
    add(route, [make](const QueueCall& call) {
      require_no_query(call.request());
      return make(call);
    });
  }

  template <class Make>
  void add(const ApiRoute& route, Make make) {
    add_queue_route(router_, context_, route, [make](const QueueCall& call) {
      call.queue->calls.answer(call.exchange, [exchange = call.exchange, queue = call.queue,
                                               arguments = call.arguments, make](const Request&) {
        return json_response(make({exchange, queue, arguments}));
      });
    });
  }

  /// A route that reads messages and changes nothing; `make` returns the answer.
  template <class Make>
  void add_look(const ApiRoute& route, Make make) {
    add_queue_route(router_, context_, route, [make](const QueueCall& call) {
      call.queue->looks.answer(
          call.exchange, [exchange = call.exchange, queue = call.queue, arguments = call.arguments,
                          make](const Request&) { return make({exchange, queue, arguments}); });
    });
  }

  /// A route whose requests share a look at the queue. `check(request)` throws what is wrong with
  /// one, and `look(queue)` returns what makes the answer to each.
  template <class Check, class Look>
  void add_shared(const ApiRoute& route, SharedAnswer SharedAnswers::* answer, Check check,
                  Look look) {
    add_queue_route(router_, context_, route, [answer, check, look](const QueueCall& call) {
      check(call.request());
      const auto look_once = [queue = call.queue, look] { return look(*queue); };
      ((*call.queue->shared).*answer).ask(call.queue->looks, call.exchange, look_once);
    });
  }

  void add_act(std::string_view path, const OperatorAction& action) {
    add_watched(path, [action](const QueueCall& call, const Presence& present) {
      return answer_act(call, present, action);
    });
  }

  template <class Make>
  void add_watched(std::string_view path, Make make) {
    add_plain(
        {.method = Method::post, .path = path, .scope = Scope::operate, .limits = HeldLimits::all},
        [make](const QueueCall& call) { return make(call, watch(call.exchange)); });
  }

  Router& router_;
  const ApiContext& context_;
};

}  // namespace

void add_operator_routes(Router& router, const ApiContext& context) {
  OperatorRoutes routes(router, context);
  routes.add_lists();
  routes.add_changes();
  routes.add_policies();
}

}  // namespace oncebox::server
