#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memory_queue.hpp"
#include "queue_index.hpp"
#include "row.hpp"

namespace oncebox::memory {

/// One call's worth of new and changed rows. Each step either happens or throws and changes
/// nothing; when the batch is destroyed without `commit`, the steps before are undone.
class MemoryQueue::IntakeBatch {
 public:
  IntakeBatch(Rows& rows, TimePoint now, std::size_t items) : rows_(rows), now_(now) {
    constexpr std::size_t kMaxStepsPerItem = 3;  // a quarantined message touches two rows
    undo_.reserve(kMaxStepsPerItem * items);
  }

  IntakeBatch(const IntakeBatch&) = delete;
  IntakeBatch& operator=(const IntakeBatch&) = delete;

  ~IntakeBatch() {
    const auto roll_back = [this](auto& step) { take_back(step); };
    for (auto step = undo_.rbegin(); step != undo_.rend(); ++step) std::visit(roll_back, *step);
  }

  void commit() noexcept {
    for (UndoStep& step : undo_) {
      if (auto* changed = std::get_if<std::unique_ptr<Changed>>(&step)) unpin(**changed);
    }
    undo_.clear();
  }

  EnqueueOutcome enqueue(const Message& message, const EnqueueOptions& options) {
    Row* const row = index().find(message.key);
    if (row == nullptr) {
      accept(create(message.key), message);
      return {};
    }
    EnqueueOutcome outcome{.hash_mismatch = hashes_differ(row->state.hash, message.hash)};
    const bool keeps_first = options.on_hash_mismatch == HashMismatchPolicy::keep_first;
    const bool is_other =
        outcome.hash_mismatch || (keeps_first && has_other_content(*row, message));
    if (is_other && options.on_hash_mismatch != HashMismatchPolicy::warn) {
      if (options.on_hash_mismatch == HashMismatchPolicy::quarantine) {
        quarantine(message, outcome);
      } else {
        outcome.status = EnqueueStatus::rejected;
      }
      touch(*row, 0);
      return outcome;
    }
    outcome.status = enqueue_again(*row, message, options);
    return outcome;
  }

  ObserveOutcome observe(const Observation& observation, std::span<const TopicPattern> paused) {
    Row* const known = index().find(observation.key);
    if (known == nullptr) {
      std::optional<ContentHash> hash = observation.hash;
      create(observation.key).state.hash = std::move(hash);
      return {};
    }
    if (observation.hash && !known->state.hash) {
      std::optional<ContentHash> hash = observation.hash;
      change(*known, nullptr, [&](RowState& state) { state.hash = std::move(hash); });
    } else {
      touch(*known, 0);
    }
    ShownState shown = known->shown_at(now_);
    if (is_paused(paused, *known->state.lane->topic)) shown = while_paused(shown);
    return {.state = observed_state(shown.state),
            .hash_mismatch = hashes_differ(known->state.hash, observation.hash)};
  }

 private:
  struct Created {
    Row* row;
  };
  struct Touched {
    Row* row;
    TimePoint last_seen_at;
    int duplicates;
  };
  struct Changed {
    Row* row;
    RowState state;
    std::unique_ptr<const Content> content = nullptr;  // what was replaced
    bool content_replaced = false;
    Lane* lane;  // pinned: the row may have been the last one in it
    Partition* partition;
  };
  using UndoStep = std::variant<Created, Touched, std::unique_ptr<Changed>>;

  static std::unique_ptr<const Content> copy_content(const Message& message) {
    return std::make_unique<const Content>(
        Content{message.topic, message.payload, message.headers});
  }

  QueueIndex& index() noexcept { return rows_.index; }

  Row& create(const MessageKey& key) {
    rows_.require_room(1, bytes_of(key));
    Row& row = index().create(key, now_);
    rows_.bytes += bytes_of(key);
    undo_.emplace_back(Created{&row});
    return row;
  }

  // Notes that a known key came again.
  void touch(Row& row, int duplicates) noexcept {
    MessageHistory& history = row.state.history;
    undo_.emplace_back(Touched{&row, history.last_seen_at, history.duplicates});
    history.last_seen_at = now_;
    for (int i = 0; i < duplicates; ++i) count_duplicate(history);
  }

  // Applies a change that cannot throw, and remembers how to take it back. A row that this batch
  // has just created will be removed whole, so nothing needs to be remembered of it.
  template <class Change>
  void change(Row& row, std::unique_ptr<const Content> content, Change apply) {
    std::unique_ptr<Changed> step;
    if (!just_created(row)) {
      step = std::make_unique<Changed>(Changed{
          .row = &row, .state = row.state, .lane = row.state.lane, .partition = row.partition});
      ++step->lane->pins;
    }
    index().edit(row, now_, [&]() noexcept {
      if (content != nullptr) {
        auto replaced = swap_content(row, std::move(content));
        if (step != nullptr) {
          step->content = std::move(replaced);
          step->content_replaced = true;
        }
      }
      row.state.history.last_seen_at = now_;
      apply(row.state);
    });
    if (step != nullptr) undo_.emplace_back(std::move(step));
  }

  [[nodiscard]] bool just_created(const Row& row) const noexcept {
    const auto* created = undo_.empty() ? nullptr : std::get_if<Created>(&undo_.back());
    return created != nullptr && created->row == &row;
  }

  std::unique_ptr<const Content> swap_content(Row& row,
                                              std::unique_ptr<const Content> content) noexcept {
    if (row.content != nullptr) rows_.bytes -= bytes_of(*row.content);
    if (content != nullptr) rows_.bytes += bytes_of(*content);
    return std::exchange(row.content, std::move(content));
  }

  // The places that a message will stand in, made before anything changes, and dropped if unused.
  struct Places {
    QueueIndex& index;
    Lane* lane;
    Partition* partition = nullptr;

    Places(QueueIndex& queue_index, const Topic& topic)
        : index(queue_index), lane(&index.lane(topic.str())) {}
    Places(const Places&) = delete;
    Places& operator=(const Places&) = delete;
    ~Places() {
      index.drop_if_unused(*lane);
      if (partition != nullptr) index.drop_if_unused(*partition);
    }
  };

  // Gives content to a row that has none, and makes it claimable unless it is dead.
  void accept(Row& row, const Message& message) {
    auto content = copy_content(message);
    rows_.require_room(0, bytes_of(*content));
    std::optional<ContentHash> hash = message.hash ? message.hash : row.state.hash;
    std::optional<PartitionKey> partition_key = message.partition_key;
    Places places(index(), message.topic);
    const bool dead = row.state.status == Status::dead;
    if (partition_key && !dead) places.partition = &index().partition(*partition_key);
    change(row, std::move(content), [&](RowState& state) {
      state.hash = std::move(hash);
      state.partition_key = std::move(partition_key);
      state.enqueue_order = index().next_enqueue_order();
      state.history.content_version = 1;
      take_schedule(state, message);
      state.lane = places.lane;
      row.partition = places.partition;
      if (!dead) state.status = Status::processing;
      state.eligible_at = state.not_before(now_);
    });
  }

  static bool has_other_content(const Row& row, const Message& message) noexcept {
    const Content* const content = row.content.get();
    return content != nullptr && (content->topic != message.topic ||
                                  !same_content(row.state.hash, content->payload, message));
  }

  EnqueueStatus enqueue_again(Row& row, const Message& message, const EnqueueOptions& options) {
    const Status status = row.state.status;
    if (status == Status::done || (row.content != nullptr && stays_as_first(status, options))) {
      touch(row, 1);
      return duplicate_status(status);
    }
    bool something_new = true;
    if (row.content != nullptr) {
      something_new = update(row, message);
    } else {
      accept(row, message);
      if (status != Status::dead) return EnqueueStatus::accepted;
      count_duplicate(row.state.history);
    }
    if (status == Status::dead) {
      if (options.on_dead == DeadPolicy::keep) return EnqueueStatus::duplicate_dead;
      revive(row);
      return EnqueueStatus::revived;
    }
    if (!something_new) return EnqueueStatus::duplicate;
    const bool leased = row.state.lease && row.state.lease->live_at(now_);
    return leased ? EnqueueStatus::superseding : EnqueueStatus::updated;
  }

  // Takes the new values of a known message. Answers whether there is something new to hand out.
  bool update(Row& row, const Message& message) {
    const bool same_topic = row.content->topic == message.topic;
    const bool same = same_content(row.state.hash, row.content->payload, message);
    std::unique_ptr<const Content> content;
    std::optional<ContentHash> hash = same && row.state.hash ? row.state.hash : message.hash;
    if (!same) {
      content = copy_content(message);
    } else if (!same_topic) {
      content = std::make_unique<const Content>(
          Content{message.topic, row.content->payload, row.content->headers});
    }
    if (content != nullptr) {
      rows_.require_room(0, bytes_of(*content), bytes_of(*row.content));
    }
    const bool something_new = content != nullptr;
    Places places(index(), message.topic);
    change(row, std::move(content), [&](RowState& state) {
      if (something_new) ++state.history.content_version;
      count_duplicate(state.history);
      state.hash = std::move(hash);
      take_schedule(state, message);
      state.lane = places.lane;
      if (state.status == Status::processing) reschedule(state, now_);
    });
    return something_new;
  }

  void revive(Row& row) {
    Places places(index(), row.content->topic);
    if (row.state.partition_key) places.partition = &index().partition(*row.state.partition_key);
    std::string reason = "enqueued again";
    change(row, nullptr, [&](RowState& state) {
      row.partition = places.partition;
      bring_back(state, state.not_before(now_), std::move(reason), now_);
    });
  }

  void quarantine(const Message& message, EnqueueOutcome& outcome) {
    const Message copy = quarantined_copy(message);
    outcome.status = EnqueueStatus::quarantined;
    outcome.quarantined_as = copy.key.message_id;
    Row* const known = index().find(copy.key);
    if (known != nullptr && (known->content != nullptr || known->state.status == Status::done)) {
      touch(*known, 1);
      return;
    }
    std::string error = "content hash differs";
    Row& row = known != nullptr ? *known : create(copy.key);
    outcome.newly_dead = row.state.status != Status::dead;
    change(row, nullptr, [&](RowState& state) {
      state.history.last_error = std::move(error);
      finish(state, Status::dead, now_);
    });
    accept(row, copy);
  }

  void unpin(Changed& step) noexcept {
    --step.lane->pins;
    index().drop_if_unused(*step.lane);
  }

  void take_back(Created& step) noexcept {
    Row& row = *step.row;
    index().edit(row, now_, [&]() noexcept { row.state.status = Status::seen; });
    rows_.remove(row);
  }

  void take_back(Touched& step) noexcept {
    step.row->state.history.last_seen_at = step.last_seen_at;
    step.row->state.history.duplicates = step.duplicates;
  }

  void take_back(std::unique_ptr<Changed>& step) noexcept {
    Row& row = *step->row;
    index().edit(row, now_, [&]() noexcept {
      if (step->content_replaced) swap_content(row, std::move(step->content));
      row.state = std::move(step->state);
      row.partition = step->partition;
    });
    unpin(*step);
  }

  Rows& rows_;
  const TimePoint now_;
  std::vector<UndoStep> undo_;
};

}  // namespace oncebox::memory
