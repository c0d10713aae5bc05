#include "handler_transaction.hpp"

#include <fmt/format.h>

#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/postgresql/transaction.hpp"
#include "sql_error.hpp"

namespace oncebox::postgresql {

namespace {

void require_same_transaction(const Result& settings) {
  if (settings.boolean(0, 0)) return;
  throw Error(ErrorCode::conflict,
              "the handler ended the transaction that it was given, and began another");
}

}  // namespace

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
  // The handler may have passed over what it was told.
  if (ended_by_) std::rethrow_exception(ended_by_);
}

// The handler may have taken longer than a call of ours may: what follows has its own time, also
// when it is the end.
void HandlerTransaction::take_back() {
  own_.renew(pool_.deadline());
  if (std::exchange(lent_, nullptr) == nullptr) return;
  connection_.take_back();
}

postgresql::Transaction& HandlerTransaction::own() {
  own_.renew(pool_.deadline());
  own_.before_next(kSettingsOfOurs, &require_same_transaction);
  return own_;
}

// No constraint of the store's tables waits for the commit. Elsewhere a row that is there already
// means that another call was quicker; here the handler would write it again each time.
void HandlerTransaction::commit() {
  own_.renew(pool_.deadline());
  try {
    own_.commit();
  } catch (const SqlError& error) {
    if (!violates_constraint(error.sqlstate())) throw;
    throw Error(ErrorCode::conflict,
                fmt::format("what the handler wrote is refused at the commit: {} ({})",
                            error.primary(), error.sqlstate()));
  }
}

// The planner's settings stay those of the handler: what is new is found by a unique index anyway.
std::vector<EnqueueOutcome> HandlerTransaction::do_enqueue(QueueKind queue,
                                                           std::span<const Message> messages,
                                                           const EnqueueOptions& options) {
  if (lent_ == nullptr) {
    throw Error(ErrorCode::conflict, "the transaction of this handler is over");
  }
  try {
    take_back();
    std::vector<EnqueueOutcome> outcomes = enqueue_(queue, messages, options, own_);
    lent_ = connection_.lend();
    return outcomes;
  } catch (...) {
    // The handler may go on, if only to find that a failed statement has ended the transaction.
    if (connection_.is_broken()) {
      ended_by_ = std::current_exception();
    } else {
      lent_ = connection_.lend();
    }
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
