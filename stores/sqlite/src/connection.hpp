#pragma once

#include <sqlite3.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"
#include "oncebox/error.hpp"
#include "oncebox/uuid.hpp"

/// A thin layer over SQLite's C interface: handles that close themselves, typed parameters and
/// columns, and one place where its error codes become ours.
namespace oncebox::sqlite {

/// Another connection holds the lock. Unlike other reasons of `unavailable`, waiting ends it.
class LockedError : public Error {
 public:
  using Error::Error;
};

/// Throws the `Error` that a result code means. `what` says what was being done.
[[noreturn]] void throw_error(sqlite3* database, int code, std::string_view what);

/// When a wait for SQLite ends, in real time: the waits are those of the operating system.
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(std::chrono::milliseconds from_now)
      : at_(SystemClock::shared().steady() + from_now) {}
  [[nodiscard]] bool has_passed() const noexcept { return SystemClock::shared().steady() >= at_; }

 private:
  SteadyTime at_;
};

/// A statement, prepared when it is first used: a store has sixty of them, which take half a
/// megabyte, and one that rests needs few. Parameters are numbered from 1, columns from 0. Bound
/// texts and blobs are borrowed: they must stay until the statement is reset.
class Statement {
 public:
  Statement(sqlite3* database, std::string_view sql) : database_(database), sql_(sql) {}

  Statement& bind(int parameter, std::int64_t value);
  Statement& bind(int parameter, int value) { return bind(parameter, std::int64_t{value}); }
  Statement& bind(int parameter, std::size_t value) {
    return bind(parameter, static_cast<std::int64_t>(value));
  }
  Statement& bind(int parameter, TimePoint time);
  Statement& bind(int parameter, std::optional<TimePoint> time);
  Statement& bind(int parameter, std::string_view text);
  Statement& bind(int parameter, const std::optional<std::string>& text);
  Statement& bind_blob(int parameter, std::string_view bytes);
  Statement& bind_blob(int parameter, std::span<const std::uint8_t> bytes);
  Statement& bind_null(int parameter);

  /// Goes on to the next row; false, and ready for new parameters, when there is none.
  [[nodiscard]] bool step();
  /// Runs a statement that answers no rows.
  void run();
  void reset() noexcept;

  [[nodiscard]] int columns();
  [[nodiscard]] bool is_read_only();

  [[nodiscard]] bool is_null(int column) const noexcept;
  [[nodiscard]] std::int64_t int64(int column) const noexcept;
  [[nodiscard]] int int32(int column) const noexcept;
  /// Valid until the next step.
  [[nodiscard]] std::string_view text(int column) const noexcept;
  [[nodiscard]] std::string_view blob(int column) const noexcept;
  [[nodiscard]] std::optional<std::string> optional_text(int column) const;
  [[nodiscard]] std::optional<std::string> optional_blob(int column) const;
  [[nodiscard]] Uuid uuid(int column) const noexcept;  ///< nil when it is none
  [[nodiscard]] TimePoint time(int column) const noexcept;
  [[nodiscard]] std::optional<TimePoint> optional_time(int column) const noexcept;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };

  [[nodiscard]] sqlite3_stmt* prepared() {
    if (!statement_) prepare();
    return statement_.get();
  }
  void prepare();
  void check(int code, std::string_view what) const;

  sqlite3* database_;
  std::string sql_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Resets a statement when a block is left before its last row.
class ResetLater {
 public:
  explicit ResetLater(Statement& statement) : statement_(statement) {}
  ResetLater(const ResetLater&) = delete;
  ResetLater& operator=(const ResetLater&) = delete;
  ~ResetLater() { statement_.reset(); }

 private:
  Statement& statement_;
};

enum class Access { read_only, read_write };

struct ConnectionOptions {
  std::string path;
  Access access = Access::read_write;
  std::chrono::milliseconds busy_timeout{5'000};
  std::size_t cache_bytes = 0;
  std::string vfs = {};  ///< empty: the default one
};

/// One connection to the database file. Used by one thread at a time.
class Connection {
 public:
  explicit Connection(const ConnectionOptions& options);
  /// A connection of the caller, which stays open.
  explicit Connection(sqlite3* borrowed);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs one or more statements without parameters.
  void execute(const char* sql);
  void execute(const std::string& sql) { execute(sql.c_str()); }
  [[nodiscard]] Statement prepare(std::string_view sql);
  /// One that is prepared the first time alone, for what is asked often. `sql` lives for ever.
  [[nodiscard]] Statement& kept(std::string_view sql);
  /// The only column of the only row.
  [[nodiscard]] std::int64_t query_integer(const char* sql);
  [[nodiscard]] std::string query_text(const char* sql);

  /// The number of the row that was inserted last.
  [[nodiscard]] std::int64_t last_insert_id() const noexcept;
  /// How many rows the last statement changed.
  [[nodiscard]] std::int64_t changes() const noexcept;
  [[nodiscard]] bool in_transaction() const noexcept;

  /// Gives back the memory of pages that are in the file as well.
  void release_memory() noexcept;

  [[nodiscard]] sqlite3* handle() noexcept { return database_.get(); }

  /// While it lives, a statement ends when the call of this thread is over, and throws its error
  /// (`CallOptions`). One that writes inside a transaction then takes the whole of it back.
  class Interruption {
   public:
    explicit Interruption(Connection& connection) noexcept;
    ~Interruption();
    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;

   private:
    sqlite3* const database_;  ///< null when the call has no limits
  };

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept {
      if (!is_borrowed) sqlite3_close_v2(database);
    }
    bool is_borrowed;
  };

  static int wait_for_lock(void* self, int waited) noexcept;

  std::unique_ptr<sqlite3, Close> database_{nullptr, Close{.is_borrowed = false}};
  std::map<std::string_view, Statement> kept_;
  std::chrono::milliseconds busy_timeout_{0};
  Deadline busy_until_;  ///< of the wait under way
};

}  // namespace oncebox::sqlite
