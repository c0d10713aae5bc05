#include <vector>

#include "api/answer_hold.hpp"
#include "api/api_routes.hpp"
#include "api/audit_calls.hpp"
#include "api/call_limits.hpp"
#include "http/answers.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/edit_json.hpp"
#include "oncebox/wire/operator_json.hpp"

/// Dead messages with another payload, and what they had before.
namespace oncebox::server {

namespace {

std::string revive_edited(const QueueCall& asked) {
  wire::EditCall call = wire::read_edit(asked.request().body);
  call.options.actor = asked.request().principal.name;
  std::vector<MessageKey> keys;
  keys.reserve(call.edits.size());
  for (const EditedMessage& edit : call.edits) keys.push_back(edit.key);
  CallLimits(asked.request()).require(asked.queue->queue, keys);
  return wire::write_revived(audited(
      asked.queue->store.audit(),
      queue_entry(asked, AuditAction::revive_edited, wire::audit_subject(std::move(keys)),
                  call.options.reason),
      [&] { return asked.queue->operations.revive_edited(call.edits, call.options); },
      counting(ReviveOutcome::revived)));
}

}  // namespace

void add_edit_routes(Router& router, const ApiContext& context) {
  add_queue_route(router, context,
                  {.method = Method::post,
                   .path = "/dead/edit",
                   .scope = Scope::operate,
                   .limits = HeldLimits::all},
                  [](const QueueCall& call) {
                    require_no_query(call.request());
                    call.queue->calls.answer(call.exchange, [exchange = call.exchange,
                                                             queue = call.queue](const Request&) {
                      return json_response(revive_edited({exchange, queue, {}}));
                    });
                  });
  add_queue_route(
      router, context, {.path = "/dead/{source}/{messageId}/history", .limits = HeldLimits::all},
      [](const QueueCall& call) {
        require_no_query(call.request());
        call.queue->looks.answer(
            call.exchange,
            [exchange = call.exchange, queue = call.queue,
             key = MessageKey{call.arguments[0], call.arguments[1]}](const Request& request) {
              CallLimits(request).require(queue->queue, {&key, 1});
              AnswerHold hold = AnswerHold::for_look(*exchange);
              const std::vector<PastContent> contents = queue->operations.past_contents(key);
              hold.count(wire::json_size(contents));
              return std::move(hold).answer(wire::write_past_contents(contents));
            });
      });
}

}  // namespace oncebox::server
