#include <utility>

#include "api/api_routes.hpp"
#include "api/large_bodies.hpp"
#include "oncebox/error.hpp"
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

std::string settle(const QueueCall& call) {
  return wire::write_settled(call.queue->queue.settle(wire::read_settlements(call.request().body)));
}

std::string extend(const QueueCall& call) {
  return wire::write_extended(call.queue->queue.extend(wire::read_extensions(call.request().body)));
}

std::string observe(const QueueCall& call) {
  return wire::write_observed(
      call.queue->queue.observe(wire::read_observations(call.request().body)));
}

std::string mark(const QueueCall& call) {
  return wire::write_marked(call.queue->queue.mark(wire::read_marks(call.request().body)));
}

std::string find(const QueueCall& call) {
  return wire::write_found(call.queue->queue.find(wire::read_keys(call.request().body)));
}

std::string reap(const QueueCall& call) {
  return wire::write_reaped(
      call.queue->queue.reap(wire::read_reap(body_or_empty_object(call.request()))));
}

std::string next_due(const QueueCall& call) {
  return wire::write_next_due(
      call.queue->queue.next_due(wire::read_topics(body_or_empty_object(call.request()))));
}

std::string get_message(const QueueCall& call) {
  const MessageKey key{call.arguments[0], call.arguments[1]};
  const std::optional<MessageRecord> record = call.queue->queue.find(key);
  if (!record) throw Error(ErrorCode::not_found, "there is no message with this source and id");
  return wire::write_record(*record);
}

}  // namespace

void add_work_routes(Router& router, const ApiContext& context) {
  const auto post = [&](std::string_view path, Scope scope, auto make) {
    add_queue_route(router, context, {Method::post, path, scope}, queue_answer(make));
  };
  add_queue_route(
      router, context, {Method::post, "/messages/claim", Scope::consume},
      [](const QueueCall& call) {
        require_no_query(call.request());
        call_with_body(call.queue->calls, call.exchange,
                       [exchange = call.exchange, queue = call.queue] {
                         queue->claims->claim(
                             exchange, wire::read_claim(body_or_empty_object(exchange->request())));
                       });
      });
  post("/messages/settle", Scope::consume, settle);
  post("/messages/extend", Scope::consume, extend);
  post("/messages/observe", Scope::produce, observe);
  post("/messages/mark", Scope::consume, mark);
  post("/messages/find", Scope::read, find);
  post("/messages/reap", Scope::consume, reap);
  post("/messages/next-due", Scope::consume, next_due);
  add_queue_route(router, context, {Method::get, "/messages/{source}/{messageId}", Scope::read},
                  queue_answer(get_message));
}

}  // namespace oncebox::server
