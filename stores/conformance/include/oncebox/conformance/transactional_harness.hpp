#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/store.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::conformance {

/// A connection of somebody who uses the database of a store himself.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void run(const std::string& sql) = 0;
  /// Joins the transaction that `run` has begun.
  [[nodiscard]] virtual Transaction& joined() = 0;
};

/// What a store with transactions gives the suite: a fresh space with a table `effect (name text
/// primary key, times integer)` beside the store's own. One harness serves one test.
class TransactionalHarness {
 public:
  virtual ~TransactionalHarness() = default;

  [[nodiscard]] virtual Store& store() = 0;
  virtual void advance(Duration by) = 0;

  /// A statement of a handler's own, on the connection of its transaction.
  virtual void run(Transaction& transaction, const std::string& sql) = 0;
  /// The number that a query answers to somebody who sees only what is committed.
  [[nodiscard]] virtual std::int64_t number(const std::string& sql) = 0;
  [[nodiscard]] virtual std::unique_ptr<Caller> caller() = 0;
};

struct TransactionalStoreUnderTest {
  std::string name;  ///< letters and digits; part of the test names
  std::function<std::unique_ptr<TransactionalHarness>()> make_harness;

  friend std::ostream& operator<<(std::ostream& out, const TransactionalStoreUnderTest& tested) {
    return out << tested.name;
  }
};

/// Defined once in each test program that links this suite.
[[nodiscard]] std::vector<TransactionalStoreUnderTest> transactional_stores_under_test();

}  // namespace oncebox::conformance
