#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "api/answer_hold.hpp"
#include "api/api_routes.hpp"
#include "api/call_limits.hpp"
#include "api/intake.hpp"
#include "api/large_bodies.hpp"
#include "api/ndjson_intake.hpp"
#include "http/answers.hpp"
#include "http/media_type.hpp"
#include "http/memory_budget.hpp"
#include "oncebox/error.hpp"
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
    require_may_revive(request, settings);
    if (media_type(request.fields) == MediaType::ndjson) {
      call.exchange->read_body(
          std::make_shared<NdjsonIntake>(call.exchange, call.queue, settings, parts_));
    } else if (is_array(request.body)) {
      enqueue_array(call, settings);
    } else {
      enqueue_single(call, settings);
    }
  }

 private:
  static bool is_array(std::string_view body) {
    const std::size_t first = body.find_first_not_of(" \t\r\n");
    return first != body.npos && body[first] == '[';
  }

  void enqueue_single(const QueueCall& call, const IntakeSettings& settings) const {
    call_with_body(call.queue->calls, call.exchange,
                   [self = *this, exchange = call.exchange, queue = call.queue, settings] {
                     self.submit_single(exchange, queue, settings);
                   });
  }

  void submit_single(const ExchangePtr& exchange, const ServedQueuePtr& queue,
                     const IntakeSettings& asked) const {
    SingleMessage single = read_single(exchange->request(), parts_.clock);
    const CallLimits limits(exchange->request());
    limits.require(single.message);
    const IntakeSettings settings = single.is_held_to_key ? asked.held_to_key() : asked;
    prepare_for(*queue, settings, parts_.clock.now(), single.message);
    const bool is_conflict_an_error = single.is_held_to_key && !settings.says_mismatch;
    const auto reply = [key = single.message.key, is_conflict_an_error](EnqueueOutcome outcome) {
      if (is_conflict_an_error && outcome.status == EnqueueStatus::rejected) refuse_other_content();
      return json_response(wire::write_enqueued(key, outcome));
    };
    // A look into the store is for the threads that may wait for it.
    detail::Intake* const shared =
        limits.looks_up_topics() ? nullptr : shared_commits(*queue, settings);
    if (shared != nullptr) {
      shared->enqueue_then(std::move(single.message),
                           [exchange, queue, reply](detail::Intake::Result result) noexcept {
                             answer(*exchange, [&] { return reply(std::move(result).outcome()); });
                           });
    } else {
      queue->calls.answer(exchange, [queue, settings, reply,
                                     message = std::move(single.message)](const Request& request) {
        return reply(store_messages(*queue, request, {&message, 1}, settings).front());
      });
    }
  }

  /// Where messages that are stored like this share commits with those of other clients; null: they
  /// do not.
  [[nodiscard]] detail::Intake* shared_commits(ServedQueue& queue,
                                               const IntakeSettings& settings) const {
    const EnqueueOptions& usual = parts_.options.enqueue;
    const EnqueueOptions& asked = settings.options;
    if (asked.on_dead != usual.on_dead) return nullptr;
    if (settings.missing_hash != MissingHash::sha256_of_payload) return nullptr;
    if (asked.on_hash_mismatch == usual.on_hash_mismatch) return &queue.singles;
    if (asked.on_hash_mismatch == HashMismatchPolicy::keep_first) return &queue.strict_singles;
    return nullptr;
  }

  [[noreturn]] static void refuse_other_content() {
    throw Error(
        ErrorCode::conflict,
        "another message is stored under this Idempotency-Key or messageId, and nothing was "
        "changed; use a new key, or send source and messageId to replace a message");
  }

  void enqueue_array(const QueueCall& call, const IntakeSettings& asked) const {
    call.queue->calls.answer(call.exchange, [queue = call.queue, exchange = call.exchange, asked,
                                             &clock = parts_.clock](const Request& request) {
      IntakeBatch batch(*queue, asked);
      const MemoryHold hold = read_array(*exchange, clock, batch);
      AnswerHold answer = AnswerHold::for_change(*exchange, answer_bytes(batch));
      const std::vector<EnqueueOutcome> outcomes = store_batch(*queue, request, batch);
      return std::move(answer).answer(wire::write_enqueued(batch.messages(), outcomes));
    });
  }

  /// What the messages take is counted while they are read.
  static MemoryHold read_array(const Exchange& exchange, const Clock& clock, IntakeBatch& batch) {
    const Request& request = exchange.request();
    BatchDefaults defaults(request, clock);
    MemoryHold hold = exchange.new_hold();
    wire::read_messages(request.body, defaults.message(), [&](Message message) {
      const std::size_t place = batch.messages().size();
      CallLimits(request).require(message);
      defaults.complete(message, place);
      batch.add(std::move(message), defaults.is_held_to_key(place), clock.now());
      // The body counts twice: as it came, and as these messages.
      const std::size_t counted = std::min(batch.bytes(), request.body.size());
      if (hold.resize(batch.bytes() - counted)) return;
      throw Error(ErrorCode::overloaded, std::string(kNoMemoryDetail));
    });
    return hold;
  }

  /// About how much JSON tells what became of them.
  static std::size_t answer_bytes(const IntakeBatch& batch) {
    constexpr std::size_t kOutcomeBytes = 96;
    std::size_t bytes = 0;
    for (const Message& message : batch.messages()) {
      bytes += kOutcomeBytes + message.key.source.str().size() +
               2 * message.key.message_id.str().size();  // and the one of a quarantined message
    }
    return bytes;
  }

  const ApiParts& parts_;
};

}  // namespace

void add_enqueue_routes(Router& router, const ApiContext& context) {
  add_queue_route(
      router, context,
      {Method::post, "/messages", Scope::produce, BodyKind::ndjson_streamed, HeldLimits::all},
      Enqueue(context.parts));
}

}  // namespace oncebox::server
