#include "handler_transaction.hpp"

#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/postgresql/transaction.hpp"

namespace oncebox::postgresql {

HandlerTransaction::HandlerTransaction(Connection& connection, const ConnectionPool& pool,
                                       Enqueue enqueue)
    : connection_(connection),
      pool_(pool),
      enqueue_(std::move(enqueue)),
      own_(connection, pool.deadline()) {}

void HandlerTransaction::run(const TransactionalQueue::Work& work) {
  own_.run(kSettingsOfOthers, Parameters());
  lent_ = connection_.lend();
  try {
    work(*this);
  } catch (...) {
    try {
      take_back();
    } catch (const Error&) {
      // It is broken, and closed instead of rolled back.
    }
    throw;
  }
  take_back();
}

void HandlerTransaction::take_back() {
  if (std::exchange(lent_, nullptr) == nullptr) return;
  connection_.take_back();
}

postgresql::Transaction& HandlerTransaction::own() {
  own_.renew(pool_.deadline());
  own_.before_next(kSettingsOfOurs);
  return own_;
}

void HandlerTransaction::commit() {
  own_.renew(pool_.deadline());
  own_.commit();
}

// The planner's settings stay those of the handler: what is new is found by a unique index anyway.
std::vector<EnqueueOutcome> HandlerTransaction::do_enqueue(QueueKind queue,
                                                           std::span<const Message> messages,
                                                           const EnqueueOptions& options) {
  if (lent_ == nullptr) {
    throw Error(ErrorCode::conflict, "the transaction of this handler is over");
  }
  take_back();
  own_.renew(pool_.deadline());
  try {
    std::vector<EnqueueOutcome> outcomes = enqueue_(queue, messages, options, own_);
    lent_ = connection_.lend();
    return outcomes;
  } catch (...) {
    // The handler may go on, if only to find that a failed statement has ended the transaction.
    if (!connection_.is_broken()) lent_ = connection_.lend();
    throw;
  }
}

pg_conn* connection_of(oncebox::Transaction& transaction) {
  if (const auto* joined = dynamic_cast<const JoinedTransaction*>(&transaction)) {
    return joined->connection();
  }
  const auto* own = dynamic_cast<const HandlerTransaction*>(&transaction);
  if (own == nullptr) {
    throw Error(ErrorCode::unsupported, "this is no transaction of a PostgreSQL store");
  }
  return own->connection();
}

}  // namespace oncebox::postgresql
