// A group commit before a database of one's own: what many threads write at the same time shares
// transactions, and each of them hears what became of its own row.

#include <sqlite3.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "example_database.hpp"
#include "example_folder.hpp"
#include "oncebox/group_commit.hpp"

namespace {

using namespace oncebox;

struct Booking {
  std::string account;
  std::string cents;
};

/// Takes batches: a transaction with 100 rows costs hardly more than one with a single row.
class Ledger {
 public:
  explicit Ledger(const std::string& path) : connection_(path) {
    (*connection_).execute("CREATE TABLE booking (account TEXT, cents INTEGER CHECK (cents > 0))");
  }

  /// The number of each row. All of them are written, or none.
  std::vector<std::int64_t> book(std::span<const Booking> bookings) {
    const ExampleDatabase database = *connection_;
    database.execute("BEGIN IMMEDIATE");
    try {
      std::vector<std::int64_t> numbers;
      for (const Booking& booking : bookings) {
        database.execute("INSERT INTO booking VALUES (?1, CAST(?2 AS INTEGER))",
                         {booking.account, booking.cents});
        numbers.push_back(sqlite3_last_insert_rowid(connection_.handle()));
      }
      database.execute("COMMIT");
      ++commits_;
      return numbers;
    } catch (const std::exception&) {
      database.execute("ROLLBACK");
      // It may be the fault of one of them: the others are committed without it.
      throw Error(ErrorCode::invalid_argument, "a booking is refused");
    }
  }

  [[nodiscard]] std::int64_t rows() const {
    return (*connection_).number("SELECT count(*) FROM booking");
  }
  [[nodiscard]] int commits() const { return commits_; }

 private:
  ExampleConnection connection_;
  int commits_ = 0;
};

}  // namespace

int main() {
  const ExampleFolder folder;
  Ledger ledger(folder / "ledger.db");
  const GroupCommitOptions options{.max_batch = 100, .max_queued = 10'000};
  GroupCommit<Booking, std::int64_t> bookings(
      [&](std::span<const Booking> batch) { return ledger.book(batch); }, options);

  // Many callers at once. Each waits for its own row to be on the disk.
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 16; ++caller) {
      callers.emplace_back([&, account = "account-" + std::to_string(caller)] {
        for (int i = 0; i < 25; ++i) bookings.submit({account, "100"});
      });
    }
  }
  std::cout << ledger.rows() << " rows\n";

  // Several in one call, which go into one transaction here.
  const int commits = ledger.commits();
  (void)bookings.submit_all(std::vector<Booking>(100, {"fee", "1"}));
  std::cout << "100 more in " << ledger.commits() - commits << " commit\n";

  // One that is refused takes none of the others with it.
  for (const CommitResult<std::int64_t>& result :
       bookings.submit_all({{"ann", "4200"}, {"bob", "-1"}, {"cyd", "900"}})) {
    if (const Error* error = result.error()) {
      std::cout << error->what() << '\n';
    } else {
      std::cout << "row " << result.outcome() << '\n';
    }
  }

  // Without waiting: the answer comes on the thread that commits.
  std::atomic<std::int64_t> number = 0;
  bookings.submit_then({"dee", "700"},
                       [&](CommitResult<std::int64_t> result) { number = result.outcome(); });
  bookings.stop();  // what is queued is committed
  std::cout << "row " << number << '\n';
}
