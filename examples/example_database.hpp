#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/// Statements of a program of one's own, on a connection that is borrowed.
class ExampleDatabase {
 public:
  explicit ExampleDatabase(sqlite3* connection) : connection_(connection) {}

  /// Values are bound to ?1, ?2, … and never become part of the statement.
  void execute(const std::string& sql, const std::vector<std::string>& values = {}) const {
    const Statement statement = prepared(sql, values);
    const int code = sqlite3_step(statement.get());
    if (code != SQLITE_DONE && code != SQLITE_ROW) fail();
  }
  /// The first number of the answer; 0 when there is none.
  [[nodiscard]] std::int64_t number(const std::string& sql,
                                    const std::vector<std::string>& values = {}) const {
    const Statement statement = prepared(sql, values);
    return sqlite3_step(statement.get()) == SQLITE_ROW ? sqlite3_column_int64(statement.get(), 0)
                                                       : 0;
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  Statement prepared(const std::string& sql, const std::vector<std::string>& values) const {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v2(connection_, sql.c_str(), -1, &made, nullptr) != SQLITE_OK) fail();
    Statement statement(made);
    int place = 0;
    for (const std::string& value : values) {
      sqlite3_bind_text(made, ++place, value.c_str(), -1, SQLITE_TRANSIENT);
    }
    return statement;
  }
  [[noreturn]] void fail() const { throw std::runtime_error(sqlite3_errmsg(connection_)); }

  sqlite3* connection_;
};

/// A connection of one's own to a file.
class ExampleConnection {
 public:
  explicit ExampleConnection(const std::string& path) {
    if (sqlite3_open(path.c_str(), &connection_) != SQLITE_OK) {
      throw std::runtime_error("cannot open " + path);
    }
    sqlite3_busy_timeout(connection_, 5000);
  }
  ~ExampleConnection() { sqlite3_close(connection_); }
  ExampleConnection(const ExampleConnection&) = delete;
  ExampleConnection& operator=(const ExampleConnection&) = delete;

  [[nodiscard]] sqlite3* handle() const { return connection_; }
  [[nodiscard]] ExampleDatabase operator*() const { return ExampleDatabase(connection_); }

 private:
  sqlite3* connection_ = nullptr;
};
