#include <memory>
#include <utility>
#include <vector>

#include "api/api_routes.hpp"
#include "api/intake.hpp"
#include "api/large_bodies.hpp"
#include "api/ndjson_intake.hpp"
#include "http/media_type.hpp"
#include "oncebox/wire/queue_json.hpp"

/// `POST /v1/messages`: one message, an array of them, or one a line.
namespace oncebox::server {

namespace {

class Enqueue {
 public:
  explicit Enqueue(const ApiParts& parts) : parts_(parts) {}

  void operator()(const QueueCall& call) const {
    const Request& request = call.request();
    const IntakeSettings settings = read_intake_query(request.query, parts_.options.enqueue);
    if (media_type(request.fields) == MediaType::ndjson) {
      call.exchange->read_body(
          std::make_shared<NdjsonIntake>(call.exchange, call.queue, settings, parts_));
    } else if (is_array(request.body)) {
      enqueue_array(call, settings);
    } else if (settings.like_shared(parts_.options.enqueue)) {
      enqueue_single(call, settings);
    } else {
      enqueue_alone(call, settings);
    }
  }

 private:
  static bool is_array(std::string_view body) {
    const std::size_t first = body.find_first_not_of(" \t\r\n");
    return first != body.npos && body[first] == '[';
  }

  /// In one commit with the messages of other clients.
  void enqueue_single(const QueueCall& call, const IntakeSettings& settings) const {
    call_with_body(call.queue->calls, call.exchange,
                   [exchange = call.exchange, queue = call.queue, settings, &clock = parts_.clock] {
                     submit_single(exchange, queue, settings, clock);
                   });
  }

  static void submit_single(const ExchangePtr& exchange, const ServedQueuePtr& queue,
                            const IntakeSettings& settings, const Clock& clock) {
    const Request& request = exchange->request();
    Message message = wire::read_message(request.body, single_defaults(request, clock));
    prepare_for(*queue, settings, clock.now(), message);
    MessageKey key = message.key;
    queue->singles.enqueue_then(std::move(message), [exchange, queue, key = std::move(key)](
                                                        detail::Intake::Result result) noexcept {
      answer(*exchange,
             [&] { return json_response(wire::write_enqueued(key, std::move(result).outcome())); });
    });
  }

  void enqueue_alone(const QueueCall& call, const IntakeSettings& settings) const {
    call.queue->calls.answer(call.exchange, [queue = call.queue, settings,
                                             &clock = parts_.clock](const Request& request) {
      Message message = wire::read_message(request.body, single_defaults(request, clock));
      prepare_for(*queue, settings, clock.now(), message);
      const EnqueueOutcome outcome = queue->queue.enqueue(message, settings.options);
      return json_response(wire::write_enqueued(message.key, outcome));
    });
  }

  void enqueue_array(const QueueCall& call, const IntakeSettings& settings) const {
    call.queue->calls.answer(call.exchange, [queue = call.queue, settings,
                                             &clock = parts_.clock](const Request& request) {
      const BatchDefaults defaults(request, clock);
      std::vector<Message> messages = wire::read_messages(request.body, defaults.message());
      for (std::size_t i = 0; i < messages.size(); ++i) {
        defaults.complete(messages[i], i);
        prepare_for(*queue, settings, clock.now(), messages[i]);
      }
      const std::vector<EnqueueOutcome> outcomes = queue->queue.enqueue(messages, settings.options);
      return json_response(wire::write_enqueued(messages, outcomes));
    });
  }

  const ApiParts& parts_;
};

}  // namespace

void add_enqueue_routes(Router& router, const ApiContext& context) {
  add_queue_route(router, context,
                  {Method::post, "/messages", Scope::produce, BodyKind::ndjson_streamed},
                  Enqueue(context.parts));
}

}  // namespace oncebox::server
