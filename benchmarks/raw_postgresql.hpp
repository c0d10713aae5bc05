#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "oncebox/message.hpp"
#include "pg_session.hpp"

namespace oncebox::bench {

/// What a program would write that uses libpq directly: one connection, prepared statements, arrays
/// in binary form, nothing checked, nothing recognised beyond the key. Every statement is a
/// transaction and flushed. It works on the tables of the PostgreSQL store.
class RawPostgresql {
 public:
  enum class Layout {
    rows,  ///< a wide row for the content, a narrow one for the state of each message
    runs,  ///< as the store does: a row for the state of 64 messages, taken as a whole
  };

  /// The tables of the store are in this schema.
  RawPostgresql(const std::string& url, const std::string& schema, Layout layout);

  /// Inserts or recognises the messages.
  void enqueue(std::span<const Message> messages);

  /// Claims and reads up to `batch` messages, and acknowledges them. Answers how many they were.
  std::size_t claim_and_acknowledge(std::size_t batch);

 private:
  PgSession session_;
  const Layout layout_;
};

/// One message per statement and transaction, into one plain table, by several connections at once:
/// what most services do.
class PlainTable {
 public:
  /// Makes the table in a schema.
  PlainTable(const std::string& url, const std::string& schema, std::size_t connections);

  /// Each connection on a thread of its own.
  void enqueue_singly(std::span<const Message> messages);

 private:
  std::vector<PgSession> sessions_;
};

/// A queue of pgmq, by its own functions. It does not recognise messages.
class PgmqQueue {
 public:
  /// Its functions are in the database already.
  explicit PgmqQueue(const std::string& url);

  void enqueue(std::span<const Message> messages);
  /// Reads up to `batch` messages, and moves them to the queue's archive.
  std::size_t read_and_archive(std::size_t batch);

 private:
  PgSession session_;
};

}  // namespace oncebox::bench
