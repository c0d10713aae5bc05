#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "connection.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::sqlite {

/// What becomes of the pages that a read has brought into memory.
enum class ReaderPages {
  kept,
  released,  ///< for reads that are rare and look at little
};

/// Connections for calls that only read. Each call sees one state of the database, the latest that
/// was committed when it began, and neither waits for the writer nor holds it up.
class ReaderPool {
 public:
  /// They are opened when they are needed, so that a store that rests has one connection.
  ReaderPool(ConnectionOptions options, std::size_t readers, ReaderPages pages = ReaderPages::kept);
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  /// Answers what `read(Connection&)` does, on a connection that is free. Throws as `Connection`
  /// does; the limits of a call end the wait for a connection, and the read.
  template <class Read>
  auto run(Read read) {
    Loan loan(*this);
    const Snapshot snapshot(loan.connection());
    const Connection::Interruption limits(loan.connection());
    return read(loan.connection());
  }
  /// The same for a single statement, which sees one state by itself.
  template <class Read>
  auto run_statement(Read read) {
    Loan loan(*this);
    return read(loan.connection());
  }

 private:
  /// A connection taken out of the pool.
  class Loan {
   public:
    explicit Loan(ReaderPool& pool) : pool_(pool), connection_(pool.take()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_.give_back(std::move(connection_)); }

    [[nodiscard]] Connection& connection() noexcept { return *connection_; }

   private:
    ReaderPool& pool_;
    std::unique_ptr<Connection> connection_;
  };

  /// A read transaction.
  class Snapshot {
   public:
    explicit Snapshot(Connection& connection) : connection_(connection) {
      connection_.execute("BEGIN");
    }
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;
    ~Snapshot();

   private:
    Connection& connection_;
  };

  std::unique_ptr<Connection> take();
  void give_back(std::unique_ptr<Connection> connection) noexcept;

  const ConnectionOptions options_;
  const ReaderPages pages_;
  detail::Mutex mutex_;
  detail::TimedCondition freed_{SystemClock::shared()};  ///< the limits of calls are real
  std::size_t not_open_ ONCEBOX_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Connection>> free_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::sqlite
