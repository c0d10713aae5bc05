#include "oncebox/detail/intake.hpp"

#include <exception>
#include <future>
#include <optional>
#include <span>

#include "oncebox/error.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::detail {

namespace {

std::size_t size_in_bytes(const Message& message) {
  std::size_t bytes = sizeof(Message) + message.payload.size() + message.topic.str().size() +
                      message.key.source.str().size() + message.key.message_id.str().size();
  for (const auto& [name, value] : message.headers) bytes += name.size() + value.size();
  return bytes;
}

}  // namespace

Intake::Intake(QueueStore& store, IntakeOptions options, const Surroundings& surroundings)
    : options_(std::move(options)),
      tracer_(surroundings.tracer),
      clock_(surroundings.clock),
      queue_(store, options_.name, surroundings),
      singles_(
          [this](std::span<const Message> batch) -> std::vector<EnqueueOutcome> {
            return queue_.enqueue(batch, options_.enqueue);
          },
          options_.group_commit, size_in_bytes, surroundings.clock) {}

EnqueueOutcome Intake::enqueue(Message message, const CallOptions& call) {
  prepare_single(message);
  EnqueueSpans spans = begin_spans({&message, 1});
  return spans.around([&] { return singles_.submit(std::move(message), call); });
}

std::future<EnqueueOutcome> Intake::enqueue_future(Message message) {
  if (tracer_ == nullptr) {
    prepare_single(message);
    return singles_.submit_future(std::move(message));
  }
  std::promise<EnqueueOutcome> promise;
  std::future<EnqueueOutcome> future = promise.get_future();
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the ticket deletes itself
  enqueue_then(std::move(message), [promise = std::move(promise)](Result result) mutable {
    if (result.ok()) {
      promise.set_value(std::move(result).outcome());
    } else {
      promise.set_exception(std::make_exception_ptr(*result.error()));
    }
  });
  return future;
}

std::vector<Intake::Result> Intake::enqueue_each(std::vector<Message> messages,
                                                 const CallOptions& call) {
  queue_.require_outside_transaction();
  std::vector<Message> good;
  std::vector<std::optional<Error>> refusals(messages.size());
  good.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    try {
      prepare(messages[i]);
      good.push_back(std::move(messages[i]));
    } catch (const Error& error) {
      refusals[i] = error;
    }
  }
  EnqueueSpans spans = begin_spans(good);
  std::vector<Result> answered =
      spans.unless_it_throws([&] { return singles_.submit_all(std::move(good), call); });
  for (std::size_t i = 0; i < answered.size(); ++i) spans.end_as(answered[i], i);
  std::vector<Result> results;
  results.reserve(refusals.size());
  auto next = answered.begin();
  for (std::optional<Error>& refusal : refusals) {
    results.push_back(refusal ? Result(std::move(*refusal)) : std::move(*next++));
  }
  return results;
}

std::vector<EnqueueOutcome> Intake::enqueue(std::vector<Message> messages,
                                            const CallOptions& call) {
  for (Message& message : messages) prepare(message);
  return begin_spans(messages).around(
      [&] { return queue_.enqueue(messages, options_.enqueue, call); });
}

std::vector<EnqueueOutcome> Intake::enqueue(std::vector<Message> messages,
                                            Transaction& transaction) {
  for (Message& message : messages) prepare(message);
  return begin_spans(messages).around(
      [&] { return queue_.enqueue_with(transaction, options_.queue, messages, options_.enqueue); });
}

EnqueueOutcome Intake::enqueue(Message message, Transaction& transaction) {
  prepare(message);
  return begin_spans({&message, 1}).around([&] {
    return queue_.enqueue_with(transaction, options_.queue, {&message, 1}, options_.enqueue)
        .front();
  });
}

// A message that is enqueued inside a transaction would wait for the committing thread, which waits
// for the store until that transaction ends: for ever. The store cannot refuse it, because it sees
// the committing thread alone.
void Intake::prepare_single(Message& message) const {
  queue_.require_outside_transaction();
  prepare(message);
}

void Intake::prepare(Message& message) const {
  require_schedule(message.due_at, message.expires_at);
  require_payload_size(message.payload.size(), options_.max_payload_bytes);
  if (!message.hash && options_.missing_hash == MissingHash::sha256_of_payload) {
    message.hash = ContentHash::sha256_of(message.payload);
  }
}

}  // namespace oncebox::detail
