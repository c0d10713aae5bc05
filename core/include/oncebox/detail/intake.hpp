#pragma once

#include <concepts>
#include <cstddef>
#include <future>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/detail/open_span.hpp"
#include "oncebox/driver/observed_queue_store.hpp"
#include "oncebox/group_commit.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_store.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/surroundings.hpp"
#include "oncebox/tracing.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::detail {

struct IntakeOptions {
  std::string name;
  QueueKind queue = QueueKind::inbox;
  EnqueueOptions enqueue = {};
  MissingHash missing_hash = MissingHash::sha256_of_payload;
  GroupCommitOptions group_commit = {};
  std::size_t max_payload_bytes = std::numeric_limits<std::size_t>::max();
};

/// How messages get into a queue: what `Inbox` and `Outbox` have in common, and whose calls it
/// serves under the same names. Safe from any thread.
class Intake {
 public:
  using Result = CommitResult<EnqueueOutcome>;

  /// Everything is borrowed. Throws `out_of_range` as `GroupCommit` does.
  Intake(QueueStore& store, IntakeOptions options, const Surroundings& surroundings);

  EnqueueOutcome enqueue(Message message, const CallOptions& call);
  [[nodiscard]] std::future<EnqueueOutcome> enqueue_future(Message message);
  template <std::invocable<Result> Callback>
  void enqueue_then(Message message, Callback callback) {
    prepare_single(message);
    if (tracer_ == nullptr) {
      singles_.submit_then(std::move(message), std::move(callback));
    } else {
      auto spans = begin_spans({&message, 1});
      singles_.submit_then(
          std::move(message),
          [spans = std::move(spans), callback = std::move(callback)](Result result) mutable {
            spans.end_as(result);
            callback(std::move(result));
          });
    }
  }
  std::vector<Result> enqueue_each(std::vector<Message> messages, const CallOptions& call);
  std::vector<EnqueueOutcome> enqueue(std::vector<Message> messages, const CallOptions& call);
  std::vector<EnqueueOutcome> enqueue(std::vector<Message> messages, Transaction& transaction);
  EnqueueOutcome enqueue(Message message, Transaction& transaction);

  void stop() { singles_.stop(); }
  [[nodiscard]] QueueStore& queue() noexcept { return queue_; }

 private:
  /// Fails for bad input, before the message shares a batch with those of others.
  void prepare(Message& message) const;
  /// The same for one that other threads may commit.
  void prepare_single(Message& message) const;
  [[nodiscard]] EnqueueSpans begin_spans(std::span<Message> messages) const {
    return {tracer_, clock_, messages};
  }

  const IntakeOptions options_;
  Tracer* const tracer_;
  const Clock& clock_;
  ObservedQueueStore queue_;
  GroupCommit<Message, EnqueueOutcome> singles_;  // last: its threads use the members above
};

}  // namespace oncebox::detail
