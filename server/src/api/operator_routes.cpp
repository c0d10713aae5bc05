#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "api/api_json.hpp"
#include "api/api_routes.hpp"
#include "oncebox/error.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/operator_json.hpp"

/// What an operator does with queues: look, bring back, remove, pause.
namespace oncebox::server {

namespace {

/// Messages that one transaction revives or purges.
constexpr std::size_t kDeadBatch = 1'000;
/// That one call does.
constexpr std::size_t kMaxDeadLimit = 1'000'000;

/// Whether the client is still there: a call that goes on in batches ends when it is not.
using Presence = std::shared_ptr<std::atomic<bool>>;

Presence watch(const ExchangePtr& exchange) {
  auto present = std::make_shared<std::atomic<bool>>(true);
  exchange->on_gone([present] { *present = false; });
  return present;
}

MessageFilter dead_only(MessageFilter filter) {
  const auto other = [](Status status) { return status != Status::dead; };
  if (std::ranges::any_of(filter.statuses, other)) {
    throw Error(ErrorCode::invalid_argument, "status: only Dead can be asked for here");
  }
  filter.statuses = {Status::dead};
  return filter;
}

std::string list_page(ServedQueue& queue, const ListRequest& request) {
  return wire::write_page(queue.operations.list(request), request.payloads);
}

/// Repeats `step(limit)`, which answers how many it changed, until all that match now are.
template <class Step>
std::size_t in_batches(ServedQueue& queue, const MessageFilter& filter, std::size_t limit,
                       const Presence& present, Step step) {
  // What dies meanwhile is not meant: a message that fails again at once would never end this.
  const std::size_t matching = std::min(limit, queue.operations.count(dead_only(filter)));
  std::size_t changed = 0;
  while (changed < matching && *present) {
    const std::size_t batch = std::min(kDeadBatch, matching - changed);
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

std::size_t count_dead(ServedQueue& queue, const wire::DeadSelection& which, std::size_t limit) {
  if (const auto* filter = std::get_if<MessageFilter>(&which)) {
    return std::min(limit, queue.operations.count(dead_only(*filter)));
  }
  const auto records = queue.queue.find(std::get<std::vector<MessageKey>>(which));
  return static_cast<std::size_t>(std::ranges::count_if(
      records, [](const auto& record) { return record && record->status == Status::dead; }));
}

std::string revive(ServedQueue& queue, const wire::ReviveCall& call, const Presence& present) {
  require_in_range("limit", call.limit, 1, kMaxDeadLimit);
  if (call.dry_run) return wire::write_matched(count_dead(queue, call.which, call.limit), true);
  if (const auto* keys = std::get_if<std::vector<MessageKey>>(&call.which)) {
    return wire::write_revived(queue.operations.revive(*keys, call.options));
  }
  const MessageFilter& filter = std::get<MessageFilter>(call.which);
  const std::size_t revived =
      in_batches(queue, filter, call.limit, present, [&](std::size_t batch) {
        return queue.operations.revive_matching(filter, call.options, batch);
      });
  return wire::write_matched(revived, false);
}

std::string purge(ServedQueue& queue, const wire::PurgeCall& call, const Presence& present) {
  require_in_range("limit", call.limit, 1, kMaxDeadLimit);
  if (call.dry_run) return wire::write_matched(count_dead(queue, call.which, call.limit), true);
  if (const auto* keys = std::get_if<std::vector<MessageKey>>(&call.which)) {
    return wire::write_purged(queue.operations.purge(*keys));
  }
  const MessageFilter& filter = std::get<MessageFilter>(call.which);
  const std::size_t purged = in_batches(queue, filter, call.limit, present, [&](std::size_t batch) {
    return queue.operations.purge_matching(filter, batch);
  });
  return wire::write_matched(purged, false);
}

std::string clean_up(ServedQueue& queue, const Request& request,
                     const RetentionOptions& retention) {
  const wire::CleanupCall call =
      wire::read_cleanup(body_or_empty_object(request),
                         {.done_retention = retention.done, .dead_retention = retention.dead});
  wire::CleanedUp result{.queue = queue.operations.cleanup(call.queue)};
  if (call.keys) result.keys_removed = queue.store.store().keys().cleanup(call.queue.limit);
  return wire::write_cleaned_up(result);
}

std::string get_dead(ServedQueue& queue, std::span<const std::string> arguments) {
  const std::optional<MessageRecord> record = queue.queue.find({arguments[0], arguments[1]});
  if (!record || record->status != Status::dead) {
    throw Error(ErrorCode::not_found, "there is no dead message with this source and id");
  }
  return wire::write_record(*record);
}

/// Adds routes whose `make` runs on a thread that may wait.
class OperatorRoutes {
 public:
  OperatorRoutes(Router& router, const ApiContext& context) : router_(router), context_(context) {}

  void add_lists() {
    add({Method::get, "/messages", Scope::read}, [](const QueueCall& call) {
      return list_page(call.queue, wire::read_list_query(call.request().query));
    });
    add({Method::get, "/dead", Scope::read}, [](const QueueCall& call) {
      ListRequest request = wire::read_list_query(call.request().query);
      request.filter = dead_only(std::move(request.filter));
      return list_page(call.queue, request);
    });
    add({Method::get, "/dead/{source}/{messageId}", Scope::read}, [](const QueueCall& call) {
      require_no_query(call.request());
      return get_dead(call.queue, call.arguments);
    });
    add({Method::post, "/messages/count", Scope::read}, [](const QueueCall& call) {
      require_no_query(call.request());
      return wire::write_count(
          call.queue.operations.count(wire::read_filter(body_or_empty_object(call.request()))));
    });
    add({Method::get, "/stats", Scope::read}, [](const QueueCall& call) {
      require_no_query(call.request());
      return wire::write_stats(call.queue.operations.stats());
    });
  }

  void add_changes() {
    add_watched("/dead/revive", [](const QueueCall& call, const Presence& present) {
      return revive(call.queue, wire::read_revive(call.request().body), present);
    });
    add_watched("/dead/purge", [](const QueueCall& call, const Presence& present) {
      return purge(call.queue, wire::read_purge(call.request().body), present);
    });
    add({Method::post, "/cleanup", Scope::operate},
        [&options = context_.parts.options](const QueueCall& call) {
          require_no_query(call.request());
          return clean_up(call.queue, call.request(), options.retention);
        });
  }

  void add_pauses() {
    add_at_once({Method::get, "/topics/paused", Scope::read}, [](const QueueCall&) {});
    add_at_once({Method::post, "/topics/pause", Scope::operate}, [](const QueueCall& call) {
      call.queue.paused.pause(wire::read_topic_pattern(call.request().body));
    });
    add_at_once({Method::post, "/topics/resume", Scope::operate}, [](const QueueCall& call) {
      if (call.queue.paused.resume(wire::read_topic_pattern(call.request().body))) {
        call.queue.claims->on_work();
      }
    });
  }

 private:
  template <class Make>
  void add(const ApiRoute& route, Make make) {
    add_queue_route(
        router_, context_, route, [&calls = context_.parts.calls, make](const QueueCall& call) {
          calls.answer(call.exchange, [exchange = call.exchange, &queue = call.queue,
                                       arguments = call.arguments, make](const Request&) {
            return json_response(make({exchange, queue, arguments}));
          });
        });
  }

  template <class Make>
  void add_watched(std::string_view path, Make make) {
    add({Method::post, path, Scope::operate}, [make](const QueueCall& call) {
      require_no_query(call.request());
      return make(call, watch(call.exchange));
    });
  }

  /// Nothing to wait for: it is in memory.
  template <class Change>
  void add_at_once(const ApiRoute& route, Change change) {
    add_queue_route(router_, context_, route, [change](const QueueCall& call) {
      require_no_query(call.request());
      change(call);
      call.exchange->send(json_response(wire::write_paused(*call.queue.paused.current())));
    });
  }

  Router& router_;
  const ApiContext& context_;
};

}  // namespace

void add_operator_routes(Router& router, const ApiContext& context) {
  OperatorRoutes routes(router, context);
  routes.add_lists();
  routes.add_changes();
  routes.add_pauses();
}

void add_store_routes(Router& router, const ApiContext& context) {
  ServedStores& stores = context.stores;
  CallPool& calls = context.parts.calls;
  router.add({.method = Method::get,
              .pattern = "/v1/stores",
              .scope = Scope::read,
              .handler = [&stores, &calls](const ExchangePtr& exchange) {
                require_no_query(exchange->request());
                calls.answer(exchange, [&stores](const Request&) {
                  std::vector<StoreReport> reports;
                  for (const auto& served : stores) {
                    Store& store = served->store.store();
                    reports.push_back({.name = served->store.name(),
                                       .is_default = reports.empty(),
                                       .capabilities = store.capabilities(),
                                       .health = store.health()});
                  }
                  return json_response(write_stores(reports));
                });
              }});
}

}  // namespace oncebox::server
