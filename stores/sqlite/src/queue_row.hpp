#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "connection.hpp"
#include "oncebox/driver/message_state.hpp"
#include "oncebox/queue_operator.hpp"
#include "oncebox/sql/stage.hpp"
#include "oncebox/sql/stored_message.hpp"
#include "topic_names.hpp"

/// How a message is laid out in the two tables of a queue, in both directions.
namespace oncebox::sqlite {

using sql::Stage;
using sql::stage_of;

/// One message as the tables have it.
struct QueueRow : sql::StoredMessage {
  Stage stage = Stage::seen;
};

/// The statement that reads rows: `SELECT … FROM … {conditions}`, where `{conditions}` follows the
/// FROM clause and may use the aliases m (message) and s (state). `queue` is the word of a
/// QueueKind.
[[nodiscard]] std::string select_rows(std::string_view queue, ListPayloads payloads,
                                      std::string_view conditions);
/// The same for the rows whose ids are in a JSON array, ?1, in its order; without their workers.
[[nodiscard]] std::string select_listed_rows(std::string_view queue);

/// The row on which a statement made by one of these stands.
[[nodiscard]] QueueRow read_row(const Statement& row, TopicNames& topics);

/// The statement that reads the attempts of the message ?1, and what it answers.
[[nodiscard]] std::string select_attempts(std::string_view queue);
[[nodiscard]] std::vector<Attempt> read_attempts(Statement& attempts, std::int64_t id);

/// `INSERT` and `UPDATE` of a whole state, and the parameters that both take. `topic` is the number
/// of the topic, 0 when there is none. When and to whom a message was leased is written by claims
/// alone, and stays.
[[nodiscard]] std::string insert_state(std::string_view queue);
[[nodiscard]] std::string update_state(std::string_view queue);
void bind_state(Statement& statement, std::int64_t id, Stage stage, std::int64_t topic,
                const MessageState& state);

[[nodiscard]] std::string_view bytes_of(const Uuid& uuid) noexcept;

}  // namespace oncebox::sqlite
