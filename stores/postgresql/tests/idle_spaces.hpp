#pragma once

#include <memory>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/store.hpp"
#include "test_space.hpp"

namespace oncebox::postgresql {

/// Schemas with the tables of a store and nothing in them. To make those tables takes the server
/// much longer than most tests do, so tests of one process have schemas one after the other. For
/// the thread that runs the tests.
class IdleSpaces {
 public:
  IdleSpaces();

  /// One that nobody else has until it is given back.
  [[nodiscard]] std::unique_ptr<TestSpace> take();
  /// What the test left there is removed.
  void give_back(std::unique_ptr<TestSpace> space) noexcept;

 private:
  std::vector<std::unique_ptr<TestSpace>> idle_;
};

/// Those of this process.
[[nodiscard]] IdleSpaces& idle_spaces();

/// A store in a schema that nobody else has until the store is destroyed. The clock is borrowed.
[[nodiscard]] std::unique_ptr<Store> make_store_in_idle_space(const Clock& clock);

}  // namespace oncebox::postgresql
