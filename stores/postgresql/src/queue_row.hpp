#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "oncebox/queue_operator.hpp"
#include "oncebox/sql/stage.hpp"
#include "oncebox/sql/stored_message.hpp"
#include "result.hpp"
#include "row_arrays.hpp"

/// How a message is laid out in the tables of a queue, in both directions.
namespace oncebox::postgresql {

using sql::Stage;
using sql::StoredMessage;

/// The text of a name that may be missing.
template <class Name>
std::optional<std::string_view> text_of(const std::optional<Name>& name) {
  if (!name) return std::nullopt;
  return std::string_view(name->str());
}

/// The columns that `read_row` reads, of the aliases m (the message) and s (its state).
[[nodiscard]] std::string row_columns(ListPayloads payloads);
/// The same with neither payload nor headers.
[[nodiscard]] std::string state_columns();
/// How many bytes the large ones of these columns have.
[[nodiscard]] std::string_view row_bytes(ListPayloads payloads) noexcept;

/// The same without the worker, whom a claim knows.
[[nodiscard]] std::string claimed_columns();

/// What a message counts of the bytes of a claim, as `bytes_of` does: an expression of the columns
/// `payload` and `headers`. It takes a headers' JSON apart, but only where there is some.
[[nodiscard]] std::string_view claim_bytes() noexcept;

/// A row of a statement that answers `row_columns`, or `state_columns`, from column `first` on.
[[nodiscard]] StoredMessage read_row(const Result& result, int row, int first = 0);

/// Where a row of the work table belongs now.
[[nodiscard]] Stage stage_of(const MessageState& state, TimePoint now) noexcept;

/// The columns of the work table, and a row of them. When and to whom a message was leased is not
/// among them: claims write that, and it stays.
inline constexpr std::array kWorkColumns{
    Column{"id", SqlType::bigint},
    Column{"enqueue_order", SqlType::bigint},
    Column{"eligible_at", SqlType::timestamptz},
    Column{"last_seen_at", SqlType::timestamptz},
    Column{"locked_until", SqlType::timestamptz},
    Column{"delivery", SqlType::bigint},
    Column{"due_at", SqlType::timestamptz},
    Column{"expires_at", SqlType::timestamptz},
    Column{"backoff_until", SqlType::timestamptz},
    Column{"finished_at", SqlType::timestamptz},
    Column{"revived_at", SqlType::timestamptz},
    Column{"payload_bytes", SqlType::integer},
    Column{"attempt", SqlType::integer},
    Column{"deliveries", SqlType::integer},
    Column{"lapses", SqlType::integer},
    Column{"content_version", SqlType::integer},
    Column{"claimed_version", SqlType::integer},
    Column{"duplicates", SqlType::integer},
    Column{"revivals", SqlType::integer},
    Column{"stage", SqlType::smallint},
    Column{"priority", SqlType::smallint},
    Column{"owner", SqlType::uuid},
    Column{"topic", SqlType::text},
    Column{"partition_key", SqlType::text},
    Column{"revival_reason", SqlType::text},
    Column{"last_error", SqlType::text},
};
void put_work(RowArrays& rows, const StoredMessage& message, Stage stage, int bytes);

/// The same for those that are done.
inline constexpr std::array kDoneColumns{
    Column{"id", SqlType::bigint},
    Column{"finished_at", SqlType::timestamptz},
    Column{"last_seen_at", SqlType::timestamptz},
    Column{"enqueue_order", SqlType::bigint},
    Column{"attempt", SqlType::integer},
    Column{"deliveries", SqlType::integer},
    Column{"lapses", SqlType::integer},
    Column{"content_version", SqlType::integer},
    Column{"duplicates", SqlType::integer},
    Column{"revivals", SqlType::integer},
    Column{"revived_at", SqlType::timestamptz},
    Column{"revival_reason", SqlType::text},
    Column{"last_error", SqlType::text},
};
void put_done(RowArrays& rows, const StoredMessage& message);

}  // namespace oncebox::postgresql
