#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/transaction.hpp"

/// Transactions of a memory store, so that a handler with a `Transaction&`, and code that enqueues
/// in a transaction of its own, can be tested without a file.
///
/// A transaction holds what is enqueued through it, in all queues, and for a handler the end of
/// its delivery: all of it is there with the commit, or none. Nobody sees it before, but the
/// transaction itself knows its own messages. Nothing else is in it: idempotency keys are not, as
/// on every store, and what your code does to its own objects cannot be undone by the store. Put it
/// into `on_commit`.
namespace oncebox::memory {

/// Has `apply` called when this transaction has committed, and never when it is rolled back: in
/// place of the rows that a handler writes on a database. Calls come in their order, on the thread
/// that commits and before workers are told of what was enqueued; they must not throw. Throws
/// `unsupported` for a transaction of another kind of store.
///
///     void FakeAccounts::book(Transaction& transaction, const std::string& account, int cents) {
///       memory::on_commit(transaction, [=, this] { cents_[account] += cents; });
///     }
void on_commit(Transaction& transaction, std::function<void()> apply);

/// A transaction that the caller begins and ends, for the tests of code that is given one of these
/// in place of a `sqlite::JoinedTransaction` or `postgresql::JoinedTransaction`:
///
///     memory::CallerTransaction transaction(store);
///     place_order(order, transaction);  // outbox.enqueue({…}, transaction)
///     transaction.commit();
///
/// Used by one thread at a time. What is not committed is rolled back by the destructor.
class CallerTransaction final : public Transaction {
 public:
  /// Begins. The store is borrowed.
  explicit CallerTransaction(MemoryStore& store);
  ~CallerTransaction() override;

  /// Throws `conflict` when other calls have changed a message meanwhile so that an outcome which
  /// the transaction has told does not hold, and `overloaded` at the store's bounds. Then nothing
  /// has happened. Either way the transaction is over: enqueues throw `conflict`.
  void commit();
  void roll_back() noexcept;

 private:
  friend void on_commit(Transaction& transaction, std::function<void()> apply);

  std::vector<EnqueueOutcome> do_enqueue(QueueKind queue, std::span<const Message> messages,
                                         const EnqueueOptions& options) override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::memory
