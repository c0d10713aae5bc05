#include "idle_spaces.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "oncebox/driver/forwarding_store.hpp"
#include "oncebox/postgresql/postgresql_store.hpp"
#include "oncebox/testing/shared_postgresql.hpp"

namespace oncebox::postgresql {
namespace {

constexpr const char* kEmptySpace = R"sql(
DO $$
DECLARE
  object record;
BEGIN
  FOR object IN SELECT oid::regclass AS name, relname, relkind FROM pg_class
      WHERE relnamespace = '{schema}'::regnamespace LOOP
    IF object.relkind = 'S' THEN
      PERFORM setval(object.name, 1, false);
    ELSIF object.relname LIKE '%priority' THEN
      EXECUTE format('DELETE FROM %s WHERE priority <> 0', object.name);
    ELSIF object.relkind = 'r' AND object.relname NOT LIKE '%schema'
          AND object.relname NOT LIKE '%\_version' THEN
      EXECUTE format('DELETE FROM %s', object.name);
    END IF;
  END LOOP;
END $$)sql";

/// A schema for one store.
struct BorrowedSpace {
  BorrowedSpace() = default;
  ~BorrowedSpace() { idle_spaces().give_back(std::move(space)); }
  BorrowedSpace(const BorrowedSpace&) = delete;
  BorrowedSpace& operator=(const BorrowedSpace&) = delete;

  std::unique_ptr<TestSpace> space = idle_spaces().take();
};

// The first base is made before the store and outlives it.
class StoreInIdleSpace final : private BorrowedSpace, public ForwardingStore {
 public:
  explicit StoreInIdleSpace(const Clock& clock)
      : ForwardingStore(std::make_unique<PostgresqlStore>(space->options(), clock)) {}
};

}  // namespace

IdleSpaces::IdleSpaces() {
  (void)testing::shared_postgresql_url();  // so that the server ends after these
}

std::unique_ptr<TestSpace> IdleSpaces::take() {
  if (idle_.empty()) return std::make_unique<TestSpace>();
  auto space = std::move(idle_.back());
  idle_.pop_back();
  return space;
}

void IdleSpaces::give_back(std::unique_ptr<TestSpace> space) noexcept {
  try {
    space->run(kEmptySpace);
    idle_.push_back(std::move(space));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{} is not used again: {}\n", space->schema(), error.what());
  }
}

IdleSpaces& idle_spaces() {
  static IdleSpaces spaces;
  return spaces;
}

std::unique_ptr<Store> make_store_in_idle_space(const Clock& clock) {
  return std::make_unique<StoreInIdleSpace>(clock);
}

}  // namespace oncebox::postgresql
