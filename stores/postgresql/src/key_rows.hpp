#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "names.hpp"
#include "oncebox/driver/key_state.hpp"
#include "oncebox/idempotency_store.hpp"
#include "oncebox/sql/storage_key.hpp"
#include "transaction.hpp"

/// The rows of the table of keys: how they are found, locked, read and written, many at a time.
namespace oncebox::postgresql {

/// Everything that is asked of the table. Prepared once per connection.
struct KeyStatements {
  explicit KeyStatements(const Names& names);

  Statement begin;     ///< one key, when it is new, processed or in good hands
  Statement complete;  ///< one key, when it is new or may be completed
  Statement lock;      ///< reads rows and keeps them from others until the transaction ends
  Statement results;   ///< those of rows that are locked
  Statement now;       ///< the time, as late as when it is run
  Statement find;
  Statement insert;
  Statement update;
  Statement touch;
  Statement forget;
};

/// What is stored of a key.
struct KeyRow {
  KeyState state;
  std::optional<std::string> result;
};

/// Reads a row that `begin`, `lock` or `find` answered. Throws `corrupt` when it is another key's,
/// or cannot be.
[[nodiscard]] KeyRow read_key_row(const Result& rows, int row, const IdempotencyKey& key);

/// Whether a call needs the results that are stored.
enum class StoredResult { needed, not_needed };

/// The place of a key in the table.
struct KeySlot {
  enum class Change { none, touched, written };

  KeySlot(const IdempotencyKey& of, const sql::StorageKey& storage_key)
      : key(&of), hash(storage_key) {}

  [[nodiscard]] const KeyState* known() const noexcept { return is_known ? &state : nullptr; }
  /// Only its last_seen is to change.
  void touch() noexcept;
  /// The state is to be stored, and this in place of any result.
  void write(const std::string* result_to_store = nullptr) noexcept;

  const IdempotencyKey* key;
  sql::StorageKey hash;
  bool has_row = false;
  bool is_known = false;  ///< false, too, when the row is past its retention
  KeyState state = {};
  std::optional<std::string> result = {};
  std::optional<std::size_t> result_bytes = {};  ///< of the result that a locked row has
  bool is_result_wanted = false;                 ///< to be there when it was committed
  Change change = Change::none;
  const std::string* new_result = nullptr;  ///< borrowed from the request
};

/// The keys of one call, each once, and in the order of their hashes. Every call locks rows in this
/// order, so that two calls cannot wait for each other.
class KeySlots {
 public:
  /// The keys are borrowed.
  explicit KeySlots(std::span<const IdempotencyKey* const> keys);

  /// The slot of the n-th key that was given.
  [[nodiscard]] KeySlot& of(std::size_t n) { return slots_[slot_of_[n]]; }
  [[nodiscard]] ArrayValue hashes() const;
  void read(const Result& rows);

  /// Locks and reads the rows there are; of their results the sizes, and if they are needed the
  /// small ones. Answers `now`, or otherwise the time when the rows were locked.
  [[nodiscard]] TimePoint load(Transaction& transaction, const KeyStatements& statements,
                               StoredResult result, const std::optional<TimePoint>& now);

  /// Reads the results that are wanted and not there yet, stores what changed and commits. Throws
  /// `LostAgainstAnother` when another call has meanwhile stored a key that had no row.
  void commit(Transaction& transaction, const KeyStatements& statements, TimePoint now);

 private:
  /// The slot of a row, whose first column is the hash.
  [[nodiscard]] KeySlot& slot_of_row(const Result& rows, int row);
  void read_results(const Result& rows);

  /// The slots to be written, those with a row or those without, as parameters of `update` or
  /// `insert`: as many statements as it takes for none to be too large.
  [[nodiscard]] std::vector<Parameters> written(bool has_row) const;

  std::vector<KeySlot> slots_;
  std::vector<std::size_t> slot_of_;
};

}  // namespace oncebox::postgresql
