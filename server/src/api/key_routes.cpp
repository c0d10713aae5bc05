#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "api/answer_hold.hpp"
#include "api/api_routes.hpp"
#include "api/large_bodies.hpp"
#include "observe/metrics.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/driver/answer_room.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/key_json.hpp"
#include "oncebox/wire/operator_json.hpp"

/// Idempotency keys: the inbox contract for one key a call (KIN-03 to KIN-06), and all that an
/// `IdempotencyStore` can do, in batches.
namespace oncebox::server {

namespace {

std::string_view outcome_word(const BeginOutcome& outcome) { return to_string(outcome.status); }
std::string_view outcome_word(CompleteOutcome outcome) {
  return outcome == CompleteOutcome::processed ? "processed" : "lease_lost";
}
std::string_view outcome_word(FailOutcome outcome) {
  return outcome == FailOutcome::failed ? "failed" : "lease_lost";
}
std::string_view outcome_word(const KeyExtendOutcome& outcome) {
  return outcome.lease_until ? "extended" : "lease_lost";
}
std::string_view outcome_word(ReleaseOutcome outcome) {
  switch (outcome) {
    case ReleaseOutcome::released:
      return "released";
    case ReleaseOutcome::lease_lost:
      return "lease_lost";
    case ReleaseOutcome::processed:
      return "processed";
    case ReleaseOutcome::unknown:
      return "unknown";
  }
  return "unknown";
}

template <class Outcome>
void count(ServedStore& store, std::string_view name, const Outcome& outcome) {
  store.metrics().on_keys(name, outcome_word(outcome));
}

template <class Outcome>
void count_all(ServedStore& store, std::string_view name, const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) count(store, name, outcome);
}

/// What a caller's body does not bound.
std::size_t bytes_of(const KeyRecord& record) {
  const auto size = [](const std::optional<std::string>& text) { return text ? text->size() : 0; };
  return record.owner.size() + size(record.result) + size(record.error);
}

/// In steps, because each key may have a result of a mebibyte. A step reads no more than may be
/// read in all.
wire::FoundKeys find_keys(IdempotencyStore& store, std::span<const IdempotencyKey> keys,
                          std::size_t max_bytes) {
  const std::size_t keys_at_once = std::max<std::size_t>(max_bytes / limits::kMaxResultBytes, 1);
  wire::FoundKeys found;
  AnswerRoom room(max_bytes);
  while (!keys.empty()) {
    const auto some = keys.first(std::min(keys_at_once, keys.size()));
    keys = keys.subspan(some.size());
    for (std::optional<KeyRecord>& record : store.find(some)) {
      found.truncated = record && !room.take(bytes_of(*record));
      if (found.truncated) return found;
      found.records.push_back(std::move(record));
    }
  }
  return found;
}

/// About how much JSON they are.
std::size_t json_size(const wire::FoundKeys& found) {
  constexpr std::size_t kRecordBytes = 512;
  std::size_t bytes = 0;
  for (const std::optional<KeyRecord>& record : found.records) {
    bytes += kRecordBytes;
    if (!record) continue;
    bytes += record->key.str().size() + bytes_of(*record);
    if (record->result) bytes += wire::base64_size(record->result->size()) - record->result->size();
  }
  return bytes;
}

class KeyRoutes {
 public:
  explicit KeyRoutes(const ApiContext& context)
      : parts_(context.parts),
        rule_(parts_.options.strict_inbox ? wire::LeaseRule::required : wire::LeaseRule::optional) {
  }

  // Single keys share commits with the keys of other clients. A callback may come long after the
  // store was removed, so it holds the store.

  void try_begin(const StoreCall& call) const {
    const auto begin = [this, exchange = call.exchange, store = call.store] {
      store->begins().submit_then(
          wire::read_try_begin(exchange->request().body, parts_.options.retention.keys),
          [exchange, store](ServedStore::Begins::Result result) noexcept {
            answer(*exchange, [&] {
              const BeginOutcome outcome = std::move(result).outcome();
              store->metrics().on_keys("begin", outcome_word(outcome));
              return json_response(wire::write_try_begin(outcome));
            });
          });
    };
    call_with_body(call.store->calls, call.exchange, begin);
  }

  void mark_processed(const StoreCall& call) const {
    const auto complete = [this, exchange = call.exchange, store = call.store] {
      store->completions().submit_then(
          wire::read_mark_processed(exchange->request().body, rule_, parts_.options.retention.keys),
          [exchange, store](ServedStore::Completions::Result result) noexcept {
            answer(*exchange, [&] {
              const CompleteOutcome outcome = std::move(result).outcome();
              store->metrics().on_keys("complete", outcome_word(outcome));
              return json_response(wire::write_mark_processed(outcome));
            });
          });
    };
    call_with_body(call.store->calls, call.exchange, complete);
  }

  void release(const StoreCall& call) const {
    answer_later(call, [](ServedStore& store, const Request& request) {
      const ReleaseOutcome outcome = store.keys().release(wire::read_release(request.body));
      count(store, "release", outcome);
      return wire::write_release(outcome);
    });
  }

  void get(const StoreCall& call) const {
    answer_later(call,
                 [key = IdempotencyKey(call.arguments[0])](ServedStore& store, const Request&) {
                   return wire::write_key_status(store.keys().find(key));
                 });
  }

  /// A batch: `read` makes items of the body, `apply` outcomes of them, `write` the answer.
  template <class Read, class Apply, class Write>
  auto batch(std::string_view name, Read read, Apply apply, Write write) const {
    return [this, name, read, apply, write](const StoreCall& call) {
      answer_later(call, [=](ServedStore& store, const Request& request) {
        const auto outcomes = apply(store.keys(), read(request.body));
        count_all(store, name, outcomes);
        return write(outcomes);
      });
    };
  }

  /// `make(ServedStore&, const Request&)` runs on a thread that may wait.
  template <class Make>
  void answer_later(const StoreCall& call, Make make) const {
    call.store->calls.answer(call.exchange,
                             [store = call.store, make = std::move(make)](const Request& request) {
                               return json_response(make(*store, request));
                             });
  }

 private:
  const ApiParts& parts_;
  const wire::LeaseRule rule_;
};

/// Its answer has the results of keys that are done.
void begin_keys(const StoreCall& call, Duration retention) {
  call.store->looks.answer(call.exchange, [exchange = call.exchange, store = call.store,
                                           retention](const Request& request) {
    const auto items = wire::read_begins(request.body, retention);
    const std::size_t results = std::min(items.size() * limits::kMaxResultBytes, kMaxAnswerBytes);
    AnswerHold hold = AnswerHold::for_change(*exchange, wire::base64_size(results));
    const auto outcomes = store->keys().begin(items);
    count_all(*store, "begin", outcomes);
    return std::move(hold).answer(wire::write_begun(outcomes));
  });
}

void add_inbox_contract(Router& router, const ApiContext& context,
                        const std::shared_ptr<const KeyRoutes>& routes) {
  const auto add = [&](Method method, std::string_view path, Scope scope, auto handler) {
    add_store_route(router, context, {method, path, scope},
                    [routes, handler](const StoreCall& call) {
                      require_no_query(call.request());
                      (*routes.*handler)(call);
                    });
  };
  add(Method::post, "/inbox/try-begin", Scope::consume, &KeyRoutes::try_begin);
  add(Method::post, "/inbox/mark-processed", Scope::consume, &KeyRoutes::mark_processed);
  add(Method::post, "/inbox/release", Scope::consume, &KeyRoutes::release);
  add(Method::get, "/inbox/{key*}", Scope::read, &KeyRoutes::get);
}

void add_key_batches(Router& router, const ApiContext& context,
                     const std::shared_ptr<const KeyRoutes>& routes) {
  const auto add = [&](std::string_view path, Scope scope, auto handler) {
    add_store_route(router, context, {Method::post, path, scope},
                    [routes, handler](const StoreCall& call) {
                      require_no_query(call.request());
                      handler(call);
                    });
  };
  const Duration retention = context.parts.options.retention.keys;
  add("/keys/begin", Scope::consume,
      [retention](const StoreCall& call) { begin_keys(call, retention); });
  add("/keys/complete", Scope::consume,
      routes->batch(
          "complete",
          [retention](std::string_view json) { return wire::read_completions(json, retention); },
          [](IdempotencyStore& keys, const auto& items) { return keys.complete(items); },
          [](const auto& outcomes) { return wire::write_completed(outcomes); }));
  add("/keys/fail", Scope::consume,
      routes->batch(
          "fail", wire::read_key_failures,
          [](IdempotencyStore& keys, const auto& items) { return keys.fail(items); },
          [](const auto& outcomes) { return wire::write_keys_failed(outcomes); }));
  add("/keys/release", Scope::consume,
      routes->batch(
          "release", wire::read_key_releases,
          [](IdempotencyStore& keys, const auto& items) { return keys.release(items); },
          [](const auto& outcomes) { return wire::write_keys_released(outcomes); }));
  add("/keys/extend", Scope::consume,
      routes->batch(
          "extend", wire::read_key_extensions,
          [](IdempotencyStore& keys, const auto& items) { return keys.extend(items); },
          [](const auto& outcomes) { return wire::write_keys_extended(outcomes); }));
}

}  // namespace

void add_key_routes(Router& router, const ApiContext& context) {
  const auto routes = std::make_shared<const KeyRoutes>(context);
  add_inbox_contract(router, context, routes);
  add_key_batches(router, context, routes);
  const auto add = [&](std::string_view path, Scope scope, auto make) {
    add_store_route(router, context, {Method::post, path, scope},
                    [routes, make](const StoreCall& call) {
                      require_no_query(call.request());
                      routes->answer_later(call, make);
                    });
  };
  add_store_route(
      router, context, {Method::post, "/keys/find", Scope::read}, [](const StoreCall& call) {
        require_no_query(call.request());
        call.store->looks.answer(
            call.exchange, [exchange = call.exchange, store = call.store](const Request& request) {
              AnswerHold hold = AnswerHold::for_look(*exchange);
              wire::FoundKeys found =
                  find_keys(store->keys(), wire::read_key_names(request.body), hold.max_bytes());
              hold.count(json_size(found));
              return std::move(hold).answer(wire::write_key_records(found));
            });
      });
  add("/keys/cleanup", Scope::operate, [](ServedStore& store, const Request& request) {
    const std::size_t limit = wire::read_limit(body_or_empty_object(request));
    const AuditEntry entry{.actor = request.principal.name,
                           .action = AuditAction::cleanup,
                           .part = AuditedPart::keys,
                           .subject = fmt::format(R"({{"limit":{}}})", limit)};
    return wire::write_count(audited(
        store.audit(), entry, [&] { return store.keys().cleanup(limit); }, std::identity()));
  });
}

}  // namespace oncebox::server
