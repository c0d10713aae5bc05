#pragma once

#include <string>
#include <string_view>

#include "oncebox/error.hpp"

namespace oncebox::postgresql {

/// What the server says of a statement.
class SqlError : public Error {
 public:
  SqlError(ErrorCode code, const std::string& text, std::string_view sqlstate,
           std::string_view primary)
      : Error(code, text), sqlstate_(sqlstate), primary_(primary) {}

  [[nodiscard]] const std::string& sqlstate() const noexcept { return sqlstate_; }
  /// Its message alone, without our advice.
  [[nodiscard]] const std::string& primary() const noexcept { return primary_; }

 private:
  std::string sqlstate_;
  std::string primary_;
};

/// A statement or transaction that lost against another one: a deadlock, a serialization failure, a
/// row that another transaction has added. Nothing has changed, and repeating the whole transaction
/// is what the database asks for. Handled inside the store, where it is not repeated for ever.
class LostAgainstAnother : public SqlError {
 public:
  /// Seen by us.
  explicit LostAgainstAnother(const std::string& text) : LostAgainstAnother(text, "", text) {}
  /// Told by the server.
  LostAgainstAnother(const std::string& text, std::string_view sqlstate, std::string_view primary)
      : SqlError(ErrorCode::unavailable, text, sqlstate, primary) {}
};

/// A lock was not to be had in the time that was set for it. Nothing has changed.
class LockTimeout : public Error {
 public:
  explicit LockTimeout(const std::string& text) : Error(ErrorCode::unavailable, text) {}
};

/// The one place that maps what the server says to our codes. `sqlstate` has five characters;
/// `text` is the server's primary message, which quotes no values of ours.
[[noreturn]] void throw_sql_error(std::string_view sqlstate, std::string_view text);

/// Whether an error with this code means that the connection should not be used any more, although
/// it may still be open: the server is shutting down, or became a standby.
[[nodiscard]] bool ends_connection(std::string_view sqlstate) noexcept;

/// Whether an error with this code means that others will not be able to write, either, until
/// somebody does something about it: a full or broken disk, or a server that only reads.
[[nodiscard]] bool prevents_writes(std::string_view sqlstate) noexcept;

/// Whether a statement, or a commit, would break a constraint.
[[nodiscard]] bool violates_constraint(std::string_view sqlstate) noexcept;

}  // namespace oncebox::postgresql
