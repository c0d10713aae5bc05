#include "names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oncebox/content_hash.hpp"
#include "oncebox/error.hpp"

namespace oncebox::postgresql {

namespace {

// Index and channel names add to them, and PostgreSQL cuts what is longer than 63 bytes.
constexpr std::size_t kMaxNameLength = 32;

void require_identifier(std::string_view what, std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool plain =
      std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || is_digit(c); });
  if (plain && name.size() <= kMaxNameLength && (name.empty() || !is_digit(name.front()))) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} must be ASCII letters, digits and underscores, must not begin with a "
                          "digit, and has at most {} characters",
                          what, kMaxNameLength));
}

}  // namespace

Names::Names(std::string schema, std::string table_prefix)
    : schema_(std::move(schema)), prefix_(std::move(table_prefix)) {
  require_identifier("the name of the schema", schema_);
  require_identifier("the table prefix", prefix_);
  if (schema_.empty()) {
    throw Error(ErrorCode::invalid_argument, "the name of the schema must not be empty");
  }
}

std::string Names::quoted(std::string_view queue, std::string_view table) const {
  const std::string_view between = queue.empty() ? "" : "_";
  return fmt::format(R"("{}"."{}{}{}{}")", schema_, prefix_, queue, between, table);
}

std::string Names::fill(std::string_view sql, std::string_view queue) const {
  return fmt::format(
      fmt::runtime(sql), fmt::arg("schema", fmt::format(R"("{}")", schema_)),
      fmt::arg("version", quoted("", "schema")), fmt::arg("key", quoted("", "key")),
      fmt::arg("audit", quoted("", "audit")), fmt::arg("topic_policy", quoted("", "topic_policy")),
      fmt::arg("policy_version", quoted("", "policy_version")),
      fmt::arg("endpoint", quoted("", "endpoint")),
      fmt::arg("endpoint_version", quoted("", "endpoint_version")),
      fmt::arg("queue", fmt::format("{}{}", prefix_, queue)), fmt::arg("prefix", prefix_),
      fmt::arg("message", quoted(queue, "message")), fmt::arg("work", quoted(queue, "work")),
      fmt::arg("done", quoted(queue, "done")), fmt::arg("run", quoted(queue, "run")),
      fmt::arg("done_run", quoted(queue, "done_run")), fmt::arg("state", quoted(queue, "state")),
      fmt::arg("done_count", quoted(queue, "done_count")),
      fmt::arg("priority", quoted(queue, "priority")),
      fmt::arg("past_content", quoted(queue, "past_content")),
      fmt::arg("worker", quoted(queue, "worker")), fmt::arg("attempt", quoted(queue, "attempt")),
      fmt::arg("numbers", quoted(queue, "numbers")),
      fmt::arg("deliveries", quoted(queue, "deliveries")));
}

std::int64_t Names::lock_number(std::string_view purpose) const {
  const std::string digest = sha256(fmt::format("oncebox\n{}\n{}\n{}", schema_, prefix_, purpose));
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    number = number << 8 | static_cast<std::uint8_t>(digest[i]);
  }
  return static_cast<std::int64_t>(number);
}

std::string Names::channel(std::string_view queue) const {
  // The names may be too long to stand in it.
  const auto number = static_cast<std::uint64_t>(lock_number(queue));
  return fmt::format("oncebox_{}_{:016x}", queue, number);
}

}  // namespace oncebox::postgresql
