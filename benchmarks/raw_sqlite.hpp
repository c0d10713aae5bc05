#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "oncebox/message.hpp"

namespace oncebox::bench {

/// What a program would write that uses SQLite directly: the tables of the SQLite store, prepared
/// statements, nothing checked, nothing recognised beyond the key. The limit to compare with.
class RawSqlite {
 public:
  /// Creates the tables in a new file.
  explicit RawSqlite(const std::string& path);
  ~RawSqlite();
  RawSqlite(const RawSqlite&) = delete;
  RawSqlite& operator=(const RawSqlite&) = delete;

  /// Inserts or recognises the messages in one transaction.
  void enqueue(std::span<const Message> messages);

  /// Claims up to `batch` messages in one transaction, reads them, and acknowledges them in
  /// another. Answers how many they were.
  std::size_t claim_and_acknowledge(std::size_t batch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oncebox::bench
