#include <algorithm>
#include <tuple>
#include <utility>

#include "arrivals.hpp"
#include "oncebox/sql/header_json.hpp"
#include "oncebox/sql/intake.hpp"
#include "postgresql_queue.hpp"

namespace oncebox::postgresql {

/// One call of enqueue. What is new goes in with one statement; only what is known is looked at.
class PostgresqlQueue::Enqueueing {
 public:
  Enqueueing(PostgresqlQueue& queue, std::span<const Message> messages,
             const EnqueueOptions& options)
      : queue_(queue),
        messages_(messages),
        options_(options),
        arrivals_(messages, queue.test_time()),
        outcomes_(messages.size()) {}

  std::vector<EnqueueOutcome> run() {
    if (arrivals_.partitions().empty() && !arrivals_.has_key_twice() && store_new()) {
      return outcomes_;
    }
    queue_.in_rows(arrivals_.partitions(), [&](RowBatch& rows, Transaction& transaction) {
      return enqueue_in(rows, transaction);
    });
    return outcomes_;
  }

  /// Whether there may be something to claim now.
  [[nodiscard]] bool brings_claimable() const {
    return !is_handed_over_ && std::any_of(outcomes_.begin(), outcomes_.end(), brings_work);
  }

 private:
  // Stores all messages with one statement if all of them are new. Otherwise false, and nothing has
  // changed.
  bool store_new() {
    if (TakenOffer offer = queue_.offers_.take_for(messages_)) {
      const KnownPolicies::Snapshot rules = queue_.policies_.last();
      if (!is_restricted(rules->policies)) return hand_over(std::move(offer), *rules);
    }
    return messages_.size() == 1 ? enqueue_alone() : arrive();
  }

  // Whether a claim must decide.
  [[nodiscard]] bool is_restricted(const TopicPolicies& policies) const noexcept {
    return std::ranges::any_of(
        messages_, [&](const Message& message) { return policies.restricts(message.topic.str()); });
  }

  // The place behind the messages that can share a row with the one at `first`.
  [[nodiscard]] std::size_t end_of_run(std::size_t first) const {
    const auto is_plain = [](const Message& message) {
      return !message.due_at && !message.expires_at;
    };
    if (!is_plain(messages_[first])) return first + 1;
    const std::size_t limit = std::min(messages_.size(), first + std::size_t{kMaxRunLength});
    std::size_t end = first + 1;
    while (end < limit && is_plain(messages_[end]) &&
           messages_[end].topic == messages_[first].topic &&
           messages_[end].priority == messages_[first].priority) {
      ++end;
    }
    return end;
  }

  bool arrive() {
    RowArrays runs(kArrivingRunColumns);
    RowArrays singles(kArrivingSingleColumns);
    for (std::size_t first = 0, end = 0; first < messages_.size(); first = end) {
      end = end_of_run(first);
      if (end - first > 1) {
        put_run(runs, first, end - 1);
      } else {
        put_single(singles, first);
      }
    }
    Parameters values = arrival_arrays();
    runs.move_to(values);
    singles.move_to(values);
    values.add(queue_.test_time());
    try {
      return insert_announced(queue_.sql_.runs.arrive, values);
    } catch (const LostAgainstAnother&) {
      return false;  // another call has just stored one of them
    }
  }

  [[nodiscard]] Parameters arrival_arrays() const {
    RowArrays messages(kArrivalColumns);
    for (const std::size_t place : arrivals_.places_by_key()) {
      arrivals_.put_message(messages, place);
      messages.put(messages_[place].due_at).put(messages_[place].expires_at);
    }
    return messages.take();
  }

  void put_run(RowArrays& runs, std::size_t first, std::size_t last) const {
    std::size_t bytes = 0;
    for (std::size_t i = first; i <= last; ++i) bytes += bytes_of(messages_[i]);
    runs.put(static_cast<std::int64_t>(first))
        .put(static_cast<std::int64_t>(last))
        .put(static_cast<std::int16_t>(messages_[first].priority.value()))
        .put(std::string_view(messages_[first].topic.str()))
        .put(static_cast<std::int64_t>(bytes));
  }

  void put_single(RowArrays& singles, std::size_t place) const {
    const Message& message = messages_[place];
    singles.put(static_cast<std::int64_t>(place))
        .put(static_cast<std::int16_t>(message.priority.value()))
        .put(std::string_view(message.topic.str()))
        .put(message.due_at)
        .put(message.expires_at)
        .put(static_cast<std::int32_t>(bytes_of(message)));
  }

  // A single new message needs no transaction around it.
  bool enqueue_alone() {
    const Parameters values = arrivals_.enqueue_values();
    return repeating([&] { return insert_announced(queue_.sql_.enqueue, values); });
  }

  // Whether the statement has stored something.
  bool insert_announced(const Statement& insert, const Parameters& values) {
    const std::optional<Announcement> announcement = queue_.announcer_.next();
    const Result stored = insert_alone(insert, values, announcement);
    if (!announcement) queue_.announcer_.soon();
    return !stored.empty();
  }

  // The statement is a transaction by itself.
  Result insert_alone(const Statement& insert, const Parameters& values,
                      const std::optional<Announcement>& announcement) {
    const Parameters priorities = arrivals_.priority_array();
    Parameters announced;
    std::vector<Command> commands;
    const bool tells_priorities = arrivals_.has_priorities();
    if (tells_priorities) commands.push_back({&queue_.sql_.know_priorities, &priorities});
    commands.push_back({&insert, &values});
    if (announcement) {
      announced.add(announcement->channel).add(announcement->text);
      commands.push_back({&queue_.sql_.announce, &announced});
    }
    ConnectionPool& pool = queue_.parts_.pool;
    const Deadline deadline = pool.deadline();
    const ConnectionPool::Lease connection = pool.acquire(deadline);
    std::vector<Result> results = connection->run_all(commands, Exchange::commits, deadline);
    return std::move(results[tells_priorities ? 1 : 0]);
  }

  // Stores the messages as a claim by the dispatcher that made the offer would have left them, and
  // gives them to it. Other processes need not hear of it. If the outcome is not known, the
  // dispatcher gets nothing, and the stored messages are claimable when their leases have lapsed.
  bool hand_over(TakenOffer offer, const VersionedPolicies& rules) {
    const ClaimRequest& request = offer.request();
    const bool is_single = messages_.size() == 1;
    Parameters values = is_single ? single_values() : leased_arrays();
    values.add(queue_.test_time()).add(request.owner.uuid().bytes());
    const WorkerName worker_name = worker_of(request);
    const std::int32_t worker = queue_.worker_number(worker_name);
    values.add(std::int64_t{request.lease.count()}).add(worker).add(rules.version);
    std::vector<StoredMessage> stored = stored_messages();  // before it cannot be undone any more
    std::vector<HeldRun> runs;
    try {
      const RunSql& sql = queue_.sql_.runs;
      const Result leased =
          insert_alone(is_single ? sql.arrive_alone_leased : sql.arrive_leased, values, {});
      if (leased.empty()) return false;
      for (int row = 0; row < leased.rows(); ++row) {
        const std::size_t first = note_lease(leased, row, request.owner, stored);
        runs.emplace_back(stored[first], stored[end_of_run(first) - 1].id, worker);
      }
    } catch (const LostAgainstAnother&) {
      return false;
    }
    // All of them became claimable at once: among such, claims go by priority first.
    std::sort(stored.begin(), stored.end(), [](const StoredMessage& a, const StoredMessage& b) {
      return std::tuple(-a.state.priority.value(), a.id) <
             std::tuple(-b.state.priority.value(), b.id);
    });
    queue_.workers_.was_given_work(worker_name);
    offer.answer(queue_.hand_out(stored, runs, rules.policies));
    is_handed_over_ = true;
    return true;
  }

  [[nodiscard]] Parameters single_values() const {
    using Text = std::optional<std::string_view>;
    const Message& message = messages_.front();
    const std::optional<std::string> headers = sql::to_json(message.headers);
    Parameters values;
    values.add(arrivals_.key(0))
        .add(std::string_view(message.key.source.str()))
        .add(std::string_view(message.key.message_id.str()))
        .add(std::string_view(message.topic.str()))
        .add(std::string_view(message.payload.bytes()))
        .add(headers ? Text(*headers) : Text())
        .add(message.hash ? Text(message.hash->algorithm()) : Text())
        .add(message.hash ? Text(message.hash->digest()) : Text())
        .add(std::int32_t{message.priority.value()});
    return values;
  }

  [[nodiscard]] Parameters leased_arrays() const {
    Parameters values = arrival_arrays();
    RowArrays runs(kArrivingRunColumns);
    for (std::size_t first = 0, end = 0; first < messages_.size(); first = end) {
      end = end_of_run(first);
      put_run(runs, first, end - 1);
    }
    runs.move_to(values);
    return values;
  }

  // New messages, but for what the database decides.
  [[nodiscard]] std::vector<StoredMessage> stored_messages() const {
    std::vector<StoredMessage> stored;
    stored.reserve(messages_.size());
    for (const Message& message : messages_) {
      const sql::Content content{message.topic, message.payload, message.headers};
      StoredMessage& added =
          stored.emplace_back(StoredMessage{.key = message.key, .state = {}, .content = content});
      added.state.status = Status::processing;
      added.state.hash = message.hash;
      added.state.priority = message.priority;
      added.state.history.deliveries = 1;
      added.state.history.content_version = 1;
      added.state.claimed_version = 1;
    }
    return stored;
  }

  // Notes what a row of the answer says of the messages of a run, and answers the place of the
  // first of them.
  [[nodiscard]] std::size_t note_lease(const Result& leased, int row, const OwnerToken& owner,
                                       std::span<StoredMessage> stored) const {
    const std::int64_t first_id = leased.int64(row, 0);
    const TimePoint now = leased.time(row, 2);
    const auto first = static_cast<std::size_t>(first_id % kIdsPerNumber);
    const std::size_t end = end_of_run(first);
    for (std::size_t i = first; i < end; ++i) {
      const auto offset = static_cast<std::int64_t>(i - first);
      MessageState& state = stored[i].state;
      stored[i].id = first_id + offset;
      state.enqueue_order = static_cast<std::uint64_t>(stored[i].id);
      state.eligible_at = now;
      state.history.first_seen_at = now;
      state.history.last_seen_at = now;
      const auto delivery = static_cast<std::uint64_t>(leased.int64(row, 1) + offset);
      state.lease = MessageLease{.owner = owner,
                                 .delivery = DeliveryNumber{delivery},
                                 .locked_until = leased.time(row, 3),
                                 .leased_at = now};
    }
    return first;
  }

  bool enqueue_in(RowBatch& rows, Transaction& transaction) {
    outcomes_ = take_in(arrivals_, rows, transaction, queue_.sql_, options_);
    const bool brings = std::any_of(outcomes_.begin(), outcomes_.end(), brings_work);
    queue_.commit(rows, brings);
    return brings;
  }

  PostgresqlQueue& queue_;
  const std::span<const Message> messages_;
  const EnqueueOptions& options_;
  const Arrivals arrivals_;
  std::vector<EnqueueOutcome> outcomes_;
  bool is_handed_over_ = false;
};

void PostgresqlQueue::require_payload_sizes(std::span<const Message> messages) const {
  const std::size_t max_payload_bytes = parts_.pool.options().max_payload_bytes;
  std::size_t bytes = 0;
  for (const Message& message : messages) {
    bytes = checked_sum(bytes, message.payload, max_payload_bytes);
  }
}

std::vector<EnqueueOutcome> PostgresqlQueue::do_enqueue(std::span<const Message> messages,
                                                        const EnqueueOptions& options) {
  require_payload_sizes(messages);
  Enqueueing enqueueing(*this, messages, options);
  std::vector<EnqueueOutcome> outcomes = enqueueing.run();
  if (enqueueing.brings_claimable()) listeners_.notify();
  return outcomes;
}

std::vector<ObserveOutcome> PostgresqlQueue::do_observe(std::span<const Observation> observations) {
  std::vector<MessageKey> keys;
  for (const Observation& observation : observations) keys.push_back(observation.key);
  return in_rows({}, [&](RowBatch& rows, Transaction& transaction) {
    rows.load(keys, RowBatch::NewRows::possible);
    sql::Intake intake(rows, rows.now());
    KnownPolicies::Snapshot rules;
    const auto paused = [&] {
      if (!rules) rules = policies_.read(transaction);
      return std::span(rules->policies.paused());
    };
    std::vector<ObserveOutcome> outcomes;
    outcomes.reserve(observations.size());
    for (std::size_t i = 0; i < observations.size(); ++i) {
      rows.at_item(i);
      outcomes.push_back(intake.observe(observations[i], paused));
    }
    rows.commit(std::nullopt);
    return outcomes;
  });
}

std::vector<MarkOutcome> PostgresqlQueue::do_mark(std::span<const Mark> marks) {
  std::vector<MessageKey> keys;
  for (const Mark& mark : marks) keys.push_back(mark.key);
  std::vector<MarkOutcome> outcomes = in_rows({}, [&](RowBatch& rows, Transaction&) {
    rows.load(keys, RowBatch::NewRows::none);
    std::vector<MarkOutcome> answers;
    answers.reserve(marks.size());
    for (const Mark& mark : marks) {
      RowBatch::Row* const row = rows.find(mark.key);
      if (row == nullptr) {
        answers.push_back(MarkOutcome::unknown);
        continue;
      }
      std::string error = error_text(mark.error);
      std::optional<Attempt> ended = marked_attempt(row->state, mark.as, error, rows.now());
      answers.push_back(apply_mark(row->state, mark.as, std::move(error), rows.now()));
      if (answers.back() != MarkOutcome::refused) RowBatch::save(*row, std::move(ended));
    }
    commit(rows, true);
    return answers;
  });
  listeners_.notify();
  return outcomes;
}

}  // namespace oncebox::postgresql
