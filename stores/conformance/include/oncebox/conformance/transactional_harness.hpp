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

/// Somebody who enqueues in transactions of his own.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void begin() = 0;
  virtual void commit() = 0;
  virtual void roll_back() = 0;
  /// Adds one, in the transaction, to how often something was done.
  virtual void count_effect(const std::string& name) = 0;
  /// Joins the transaction that has begun.
  [[nodiscard]] virtual Transaction& joined() = 0;
};

/// What a store with transactions gives the suite: a fresh space that counts what handlers do, in
/// their transactions, beside the store. One harness serves one test.
class TransactionalHarness {
 public:
  virtual ~TransactionalHarness() = default;

  [[nodiscard]] virtual Store& store() = 0;
  virtual void advance(Duration by) = 0;

  /// Adds one, in the transaction of a handler, to how often it did something.
  virtual void count_effect(Transaction& transaction, const std::string& name) = 0;
  /// How many names there are, for somebody who sees only what is committed.
  [[nodiscard]] virtual std::int64_t effects() = 0;
  /// How many of them were counted once.
  [[nodiscard]] virtual std::int64_t effects_counted_once() = 0;
  [[nodiscard]] virtual std::unique_ptr<Caller> caller() = 0;
};

/// Counts in a table `effect (name text primary key, times integer)` of the store's database.
class SqlTransactionalHarness : public TransactionalHarness {
 public:
  [[nodiscard]] static std::string counting(const std::string& name) {
    return "INSERT INTO effect (name, times) VALUES ('" + name +
           "', 1) ON CONFLICT (name) DO UPDATE SET times = effect.times + 1";
  }

  void count_effect(Transaction& transaction, const std::string& name) override {
    run(transaction, counting(name));
  }
  [[nodiscard]] std::int64_t effects() override { return number("SELECT count(*) FROM effect"); }
  [[nodiscard]] std::int64_t effects_counted_once() override {
    return number("SELECT count(*) FROM effect WHERE times = 1");
  }

 private:
  /// A statement of a handler's own, on the connection of its transaction.
  virtual void run(Transaction& transaction, const std::string& sql) = 0;
  /// The number that a query answers to somebody who sees only what is committed.
  [[nodiscard]] virtual std::int64_t number(const std::string& sql) = 0;
};

/// A connection of somebody who uses the database of a store himself.
class SqlCaller : public Caller {
 public:
  virtual void run(const std::string& sql) = 0;

  void begin() override { run("BEGIN"); }
  void commit() override { run("COMMIT"); }
  void roll_back() override { run("ROLLBACK"); }
  void count_effect(const std::string& name) override {
    run(SqlTransactionalHarness::counting(name));
  }
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
