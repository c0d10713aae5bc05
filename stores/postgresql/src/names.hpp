#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace oncebox::postgresql {

/// The names of everything that the store has in the database.
class Names {
 public:
  /// Throws `invalid_argument` unless both are plain identifiers: ASCII letters, digits and
  /// underscores, not beginning with a digit, at most 32 characters. The prefix may be empty.
  Names(std::string schema, std::string table_prefix);

  [[nodiscard]] const std::string& schema() const noexcept { return schema_; }

  /// Fills quoted names into a statement that says `{schema}`, `{version}`, `{key}`, `{audit}`,
  /// `{topic_policy}`, `{policy_version}`, `{endpoint}`, `{endpoint_version}`, and for a queue, by
  /// the word of its QueueKind, `{message}`, `{work}`, `{done}`, `{state}`, `{done_count}`,
  /// `{priority}`, `{past_content}`, `{worker}`, `{attempt}`, `{numbers}` and `{deliveries}`.
  /// `{queue}` is the name of the queue's tables without quotation marks, for the names of their
  /// indexes.
  [[nodiscard]] std::string fill(std::string_view sql, std::string_view queue = "inbox") const;

  /// A number that no other store and purpose is likely to have, for advisory locks.
  [[nodiscard]] std::int64_t lock_number(std::string_view purpose) const;

  /// The channel on which a queue's work is announced.
  [[nodiscard]] std::string channel(std::string_view queue) const;

 private:
  [[nodiscard]] std::string quoted(std::string_view queue, std::string_view table) const;

  std::string schema_;
  std::string prefix_;
};

}  // namespace oncebox::postgresql
