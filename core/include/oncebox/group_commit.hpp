#pragma once

#include <concepts>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/detail/commit_queue.hpp"
#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"
#include "oncebox/group_commit_options.hpp"

namespace oncebox {

/// What became of one item: its outcome, or the error by which it was not committed.
template <class Outcome>
class CommitResult {
 public:
  CommitResult(Outcome outcome) : value_(std::in_place_index<0>, std::move(outcome)) {}
  CommitResult(Error error) : value_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return value_.index() == 0; }
  /// Null when there is an outcome.
  [[nodiscard]] const Error* error() const noexcept { return std::get_if<1>(&value_); }

  /// Throws the error when there is no outcome.
  [[nodiscard]] const Outcome& outcome() const& {
    throw_error();
    return *std::get_if<0>(&value_);
  }
  [[nodiscard]] Outcome outcome() && {
    throw_error();
    return std::move(*std::get_if<0>(&value_));
  }

 private:
  void throw_error() const {
    if (const Error* failure = error()) throw Error(*failure);
  }

  std::variant<Outcome, Error> value_;
};

/// Stands between many callers and a store that takes batches: items that are submitted while one
/// batch commits make up the next one. Nobody waits for a timer: an item that comes while a
/// committer is idle is committed at once, by the caller itself if it waits for the answer.
///
/// **Threads.** Every call but the destructor may be made from any thread at any time. A callback
/// must neither block nor call `submit`, `submit_all` or `stop`: it runs on the thread that
/// commits.
///
/// **Order.** Items are committed in the order in which they were queued. With more than one
/// committer this holds within a batch only.
///
/// **Failures.** An error is given to the items that it concerns:
/// - `overloaded`, `unavailable`, `timeout` and `outcome_unknown` to every item of the batch;
/// - any other one may be the fault of a single item: the batch is committed again in halves until
///   the guilty items are alone, and the others get their outcomes. What is not an `Error` becomes
///   `internal`.
///
/// **Limits.** An item that still waits for its commit at the limit of its call is withdrawn:
/// `timeout` or `cancelled`. When its batch is under way the caller leaves with `outcome_unknown`.
/// A caller that commits by itself makes the commit under its limits.
///
/// There is no atomicity among items: callers that need it put them into one item, or call the
/// store.
template <class Item, class Outcome>
class GroupCommit {
 public:
  static_assert(std::is_nothrow_move_constructible_v<Item>,
                "items are moved into the batch on the committing thread");

  using Result = CommitResult<Outcome>;
  /// Commits a batch in one transaction and answers one outcome for each item, in order. When it
  /// throws, nothing has changed, unless the code is `outcome_unknown`. Called by any thread, but
  /// by no more than there are committers at a time.
  using Commit = std::function<std::vector<Outcome>(std::span<const Item> items)>;
  /// How much memory an item holds, for the bounds in bytes. Called on the submitting thread.
  using SizeInBytes = std::function<std::size_t(const Item& item)>;

  /// Without `size_in_bytes` only the number of items is bounded. The clock, which tells when a
  /// committer has rested for `idle_time`, is borrowed. Throws `out_of_range` when an option is
  /// zero, `max_batch` above `limits::kMaxBatchItems`, or `committers` above 64.
  explicit GroupCommit(Commit commit, const GroupCommitOptions& options = {},
                       SizeInBytes size_in_bytes = {}, const Clock& clock = SystemClock::shared())
      : commit_(std::move(commit)),
        size_in_bytes_(std::move(size_in_bytes)),
        queue_(
            options, [this](const detail::CommitTickets& batch) { commit_batch(batch); }, clock) {}

  /// Stops, as `stop` does.
  ~GroupCommit() = default;
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // All ways to submit throw `overloaded` at once when the queue is full, and `unavailable` after
  // `stop`. Then the item was not queued, and neither future nor callback is told.

  /// Waits until the item is committed and answers its outcome, or throws its error.
  Outcome submit(Item item, const CallOptions& call = {}) {
    return submit(std::move(item), call, &GroupCommit::leave_behind);
  }

  /// The same. At the limit of an item whose batch is under way `leave()` tells with which `Error`
  /// the caller leaves, or nothing: then it waits for the answer.
  template <std::invocable Leave>
  Outcome submit(Item item, const CallOptions& call, Leave leave) {
    const CallScope scope(call);
    if (!CallScope::current().is_limited()) return submit_unlimited(std::move(item));
    const auto push = [this](const auto& single) { queue_.push_or_commit(single); };
    return std::move(submit_limited({&item, 1}, push, leave).front()).outcome();
  }

  /// Queues the items one behind the other, all or none, and waits until each is answered. They
  /// may be committed in several batches, and one may fail while others succeed. Throws
  /// `out_of_range` when they are more than `max_queued`.
  std::vector<Result> submit_all(std::vector<Item> items, const CallOptions& call = {}) {
    if (items.empty()) return {};
    const CallScope scope(call);
    const auto push = [this](const auto& chain) { queue_.push(chain); };
    return submit_limited(items, push, &GroupCommit::leave_behind);
  }

  /// Answers at once. The future gets the outcome or the error, and does not block when dropped.
  [[nodiscard]] std::future<Outcome> submit_future(Item item) {
    std::promise<Outcome> promise;
    std::future<Outcome> future = promise.get_future();
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the ticket deletes itself
    submit_then(std::move(item), [promise = std::move(promise)](Result result) mutable {
      if (result.ok()) {
        promise.set_value(std::move(result).outcome());
      } else {
        promise.set_exception(std::make_exception_ptr(*result.error()));
      }
    });
    return future;
  }

  /// Answers at once. `callback(Result)` runs on the thread that commits, outside every lock. It
  /// holds up the next commit and should be noexcept: what it throws is dropped.
  template <std::invocable<Result> Callback>
  void submit_then(Item item, Callback callback) {
    auto ticket = std::make_unique<CallbackTicket<Callback>>(std::move(item), std::move(callback));
    push(*ticket);
    // It belongs to the committing thread now, which may have deleted it already.
    (void)ticket.release();
  }

  /// Refuses new items with `unavailable`, commits and answers all that are queued, and waits for
  /// that. Calling it again, or from several threads at once, is safe.
  void stop() { queue_.stop(); }

  /// Items that wait for a commit now, without those that are being committed.
  [[nodiscard]] std::size_t queued() const { return queue_.size(); }

  /// Threads of its own that commit, or wait for items, now: none once it has rested for a while.
  [[nodiscard]] std::size_t threads() const { return queue_.threads(); }

 private:
  struct Ticket : detail::CommitTicket {
    explicit Ticket(Item submitted) : item(std::move(submitted)) {}
    virtual ~Ticket() = default;
    /// Called once. The ticket may be gone when it returns.
    virtual void answer(Result result) noexcept = 0;

    Item item;
  };

  struct BlockingTicket final : Ticket {
    BlockingTicket(Item submitted, detail::CommitWaiter& caller)
        : Ticket(std::move(submitted)), waiter(caller) {}
    void answer(Result answered) noexcept override {
      result = std::move(answered);
      waiter.count_down();
    }

    detail::CommitWaiter& waiter;
    std::optional<Result> result;
  };

  template <class Callback>
  struct CallbackTicket final : Ticket {
    CallbackTicket(Item submitted, Callback to_call)
        : Ticket(std::move(submitted)), callback(std::move(to_call)) {}
    void answer(Result result) noexcept override {
      const std::unique_ptr<CallbackTicket> self(this);
      try {
        callback(std::move(result));
      } catch (...) {
        // The other callers of this batch still wait for their answers.
      }
    }

    Callback callback;
  };

  /// The items of a call that waits, and their answers. Belongs to the caller and to each of its
  /// tickets that is not answered yet, so that the caller may leave.
  struct WaitingCall {
    struct Ticket final : GroupCommit::Ticket {
      Ticket(Item submitted, std::shared_ptr<WaitingCall> of)
          : GroupCommit::Ticket(std::move(submitted)), call(std::move(of)) {}
      void answer(Result answered) noexcept override {
        const std::shared_ptr<WaitingCall> held = std::move(call);
        const detail::Lock lock(held->waiter.mutex());
        result = std::move(answered);
        held->waiter.count_down();
      }

      std::shared_ptr<WaitingCall> call;
      std::optional<Result> result;
    };

    detail::LimitedWaiter waiter;
    std::deque<Ticket> tickets;  // never moves what is in it
  };

  /// `push(chain)` submits the items, all or none.
  template <class Push, class Leave>
  std::vector<Result> submit_limited(std::span<Item> items, Push push, Leave leave) {
    std::vector<Result> results;
    results.reserve(items.size());
    const auto call = std::make_shared<WaitingCall>();
    detail::CommitTickets chain;
    try {
      for (Item& item : items) {
        weigh(call->tickets.emplace_back(std::move(item), call));
        chain.append(call->tickets.back());
      }
      call->waiter.expect(items.size());
      push(chain);
    } catch (...) {
      for (auto& ticket : call->tickets) ticket.call.reset();
      throw;
    }
    const CallOptions& limits = CallScope::current();
    if (!call->waiter.wait(limits)) leave_early(*call, limits, leave);
    const detail::Lock lock(call->waiter.mutex());
    for (auto& ticket : call->tickets) results.push_back(std::move(*ticket.result));
    return results;
  }

  template <class Leave>
  void leave_early(WaitingCall& call, const CallOptions& limits, Leave leave) {
    const Error over = limits.error();
    for (auto& ticket : call.tickets) {
      if (queue_.withdraw(ticket)) ticket.answer(over);
    }
    const std::optional<Error> why = leave();
    if (!why) {
      call.waiter.wait({});
      return;
    }
    // What is answered later goes with the ticket.
    const detail::Lock lock(call.waiter.mutex());
    for (auto& ticket : call.tickets) {
      if (!ticket.result) ticket.result = *why;
    }
  }

  /// How a caller leaves whose batch is under way.
  static std::optional<Error> leave_behind() {
    return Error(ErrorCode::outcome_unknown,
                 "the limit of the call came while its batch was being committed; repeating the "
                 "call is safe");
  }

  Outcome submit_unlimited(Item item) {
    detail::CommitWaiter waiter;
    BlockingTicket ticket(std::move(item), waiter);
    weigh(ticket);
    detail::CommitTickets single;
    single.append(ticket);
    queue_.push_or_commit(single);
    waiter.wait();
    return std::move(*ticket.result).outcome();
  }

  void weigh(Ticket& ticket) const {
    if (size_in_bytes_) ticket.bytes = size_in_bytes_(ticket.item);
  }

  void push(Ticket& ticket) {
    weigh(ticket);
    detail::CommitTickets single;
    single.append(ticket);
    queue_.push(single);
  }

  void commit_batch(const detail::CommitTickets& batch) noexcept {
    std::vector<Item> items;
    try {
      items.reserve(batch.size());
    } catch (...) {
      answer_all(batch.first(), batch.size(), detail::CommitFailure::current());
      return;
    }
    for (detail::CommitTicket* link = batch.first(); link != nullptr; link = link->next) {
      items.push_back(std::move(static_cast<Ticket*>(link)->item));
    }
    commit_or_split(items, batch.first());
  }

  /// Commits these items and answers their tickets, which begin at `first`. Returns the ticket
  /// after them.
  detail::CommitTicket* commit_or_split(std::span<const Item> items, detail::CommitTicket* first) {
    std::vector<Outcome> outcomes;
    std::optional<detail::CommitFailure> failure;
    try {
      outcomes = commit_(items);
      if (outcomes.size() != items.size()) {
        failure = detail::CommitFailure::wrong_number_of_outcomes(items.size(), outcomes.size());
      }
    } catch (...) {
      failure = detail::CommitFailure::current();
    }
    if (!failure) {
      for (Outcome& outcome : outcomes) first = answer(first, std::move(outcome));
      return first;
    }
    if (failure->of_whole_batch || items.size() == 1) {
      return answer_all(first, items.size(), *failure);
    }
    const std::size_t half = items.size() / 2;
    first = commit_or_split(items.first(half), first);
    return commit_or_split(items.subspan(half), first);
  }

  static detail::CommitTicket* answer_all(detail::CommitTicket* first, std::size_t count,
                                          const detail::CommitFailure& failure) {
    for (; count > 0; --count) first = answer(first, failure.error());
    return first;
  }

  static detail::CommitTicket* answer(detail::CommitTicket* link, Result result) {
    detail::CommitTicket* const next = link->next;
    static_cast<Ticket*>(link)->answer(std::move(result));
    return next;
  }

  const Commit commit_;
  const SizeInBytes size_in_bytes_;
  detail::CommitQueue queue_;  // last: its threads use the members above
};

}  // namespace oncebox
