#include <functional>
#include <utility>
#include <vector>

#include "api/answer_hold.hpp"
#include "api/api_routes.hpp"
#include "api/call_limits.hpp"
#include "api/large_bodies.hpp"
#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/queue_json.hpp"

/// The calls of workers: claims and settlements, and marks of messages handled without a claim.
namespace oncebox::server {

namespace {

/// A handler that gives `make(const QueueCall&)`, on a thread that may wait, the queue and the
/// request, and sends the JSON that it returns.
template <class Make>
auto queue_answer(Make make) {
  return [make = std::move(make)](const QueueCall& call) {
    require_no_query(call.request());
    call.queue->calls.answer(call.exchange, [exchange = call.exchange, queue = call.queue,
                                             arguments = call.arguments, make](const Request&) {
      return json_response(make(QueueCall{exchange, queue, arguments}));
    });
  };
}

/// The same for calls that read messages and change nothing; `make` returns the answer.
template <class Make>
auto look_answer(Make make) {
  return [make = std::move(make)](const QueueCall& call) {
    require_no_query(call.request());
    call.queue->looks.answer(call.exchange, [exchange = call.exchange, queue = call.queue,
                                             arguments = call.arguments, make](const Request&) {
      return make(QueueCall{exchange, queue, arguments});
    });
  };
}

/// Refuses what names messages that are not for the caller. `key_of(item)` is the key of an item.
template <class Item, class KeyOf>
const std::vector<Item>& allowed(const QueueCall& call, const std::vector<Item>& items,
                                 KeyOf key_of) {
  const CallLimits limits(call.request());
  if (limits.allow_all_messages()) return items;
  std::vector<MessageKey> keys;
  keys.reserve(items.size());
  for (const Item& item : items) keys.push_back(key_of(item));
  limits.require(call.queue->queue, keys);
  return items;
}

constexpr auto kKeyOfDelivery = [](const auto& item) { return item.delivery.key; };
constexpr auto kKeyOfItem = [](const auto& item) { return item.key; };

// A worker that gives no name is known by the caller's: this process is not who works.
wire::ClaimCall read_claim(const Request& request) {
  wire::ClaimCall call = wire::read_claim(body_or_empty_object(request));
  if (!call.request.worker) {
    call.request.worker = clip_text(request.principal.name, kMaxWorkerNameCodePoints);
  }
  return call;
}

std::string settle(const QueueCall& call) {
  const auto items = wire::read_settlements(call.request().body);
  return wire::write_settled(
      call.queue->for_request(call.request())->settle(allowed(call, items, kKeyOfDelivery)));
}

std::string extend(const QueueCall& call) {
  const auto items = wire::read_extensions(call.request().body);
  return wire::write_extended(call.queue->queue.extend(allowed(call, items, kKeyOfDelivery)));
}

std::string observe(const QueueCall& call) {
  const auto items = wire::read_observations(call.request().body);
  return wire::write_observed(
      call.queue->for_request(call.request())->observe(allowed(call, items, kKeyOfItem)));
}

std::string mark(const QueueCall& call) {
  const auto items = wire::read_marks(call.request().body);
  return wire::write_marked(
      call.queue->for_request(call.request())->mark(allowed(call, items, kKeyOfItem)));
}

Response find(const QueueCall& call) {
  const wire::FindCall asked = wire::read_find(call.request().body);
  const std::vector<MessageKey>& keys = allowed(call, asked.keys, std::identity());
  FindOptions options = asked.options;
  AnswerHold hold = AnswerHold::for_look(*call.exchange, options.max_bytes);
  options.max_bytes = hold.max_bytes();
  wire::FoundMessages found{.records = call.queue->queue.find_some(keys, options)};
  found.truncated = found.records.size() < keys.size();
  hold.count(wire::json_size(found, options.payloads));
  return std::move(hold).answer(wire::write_found(found, options.payloads));
}

std::string reap(const QueueCall& call) {
  return wire::write_reaped(call.queue->for_request(call.request())
                                ->reap(wire::read_reap(body_or_empty_object(call.request()))));
}

std::string next_due(const QueueCall& call) {
  TopicSelection topics = wire::read_topics(body_or_empty_object(call.request()));
  CallLimits(call.request()).narrow(topics);
  return wire::write_next_due(call.queue->queue.next_due(topics));
}

Response get_message(const QueueCall& call) {
  const MessageKey key{call.arguments[0], call.arguments[1]};
  CallLimits(call.request()).require(call.queue->queue, {&key, 1});
  AnswerHold hold = AnswerHold::for_look(*call.exchange);
  const std::optional<MessageRecord> record = call.queue->queue.find(key);
  if (!record) throw Error(ErrorCode::not_found, "there is no message with this source and id");
  return record_answer(std::move(hold), *record);
}

}  // namespace

void add_work_routes(Router& router, const ApiContext& context) {
  const auto post = [&](std::string_view path, Scope scope, auto make,
                        HeldLimits limits = HeldLimits::all) {
    add_queue_route(router, context,
                    {.method = Method::post, .path = path, .scope = scope, .limits = limits},
                    queue_answer(make));
  };
  add_queue_route(router, context,
                  {.method = Method::post,
                   .path = "/messages/claim",
                   .scope = Scope::consume,
                   .limits = HeldLimits::all},
                  [](const QueueCall& call) {
                    require_no_query(call.request());
                    call_with_body(call.queue->calls, call.exchange,
                                   [exchange = call.exchange, queue = call.queue] {
                                     wire::ClaimCall claim = read_claim(exchange->request());
                                     CallLimits(exchange->request()).narrow(claim.request.topics);
                                     queue->claims->claim(exchange, std::move(claim));
                                   });
                  });
  post("/messages/settle", Scope::consume, settle);
  post("/messages/extend", Scope::consume, extend);
  post("/messages/observe", Scope::produce, observe);
  post("/messages/mark", Scope::consume, mark);
  add_queue_route(router, context,
                  {.method = Method::post, .path = "/messages/find", .limits = HeldLimits::all},
                  look_answer(find));
  post("/messages/reap", Scope::consume, reap, HeldLimits::stores);
  post("/messages/next-due", Scope::consume, next_due);
  add_queue_route(router, context,
                  {.path = "/messages/{source}/{messageId}", .limits = HeldLimits::all},
                  look_answer(get_message));
}

}  // namespace oncebox::server
