#include "message_variables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <map>

#include "json_output.hpp"
#include "oncebox/content_hash.hpp"

namespace oncebox::app {
namespace {

/// The most that Linux takes as one string of an environment, with the NUL behind it.
constexpr std::size_t kMaxVariableBytes = 128 << 10;

/// ONCEBOX_HEADER_CONTENTTYPE for contentType: what is no letter or digit becomes `_`.
std::string header_variable(std::string_view name) {
  std::string variable = "ONCEBOX_HEADER_";
  for (const char character : name) {
    const auto byte = static_cast<unsigned char>(character);
    const bool is_plain = byte < 0x80 && std::isalnum(byte) != 0;
    variable += is_plain ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return variable;
}

/// Each header whose variable no other one has, and the names of those that several have.
void add_headers_one_by_one(std::vector<std::string>& variables, const Headers& headers) {
  std::map<std::string, std::vector<std::string_view>> values;
  for (const auto& [name, value] : headers) values[header_variable(name)].push_back(value);
  std::vector<std::string_view> ambiguous;
  for (const auto& [variable, candidates] : values) {
    if (candidates.size() > 1) {
      ambiguous.push_back(variable);
    } else {
      variables.push_back(fmt::format("{}={}", variable, candidates.front()));
    }
  }
  variables.push_back(fmt::format("ONCEBOX_AMBIGUOUS_HEADERS={}", fmt::join(ambiguous, " ")));
}

/// Half of them would be taken for all, so it is all or nothing.
void add_headers_together(std::vector<std::string>& variables, const Headers& headers) {
  std::vector<JsonField> fields;
  for (const auto& [name, value] : headers) fields.emplace_back(name, value);
  std::string variable = "ONCEBOX_HEADERS=" + json_object(fields);
  if (variable.size() < kMaxVariableBytes) variables.push_back(std::move(variable));
}

}  // namespace

std::vector<std::string> environment_for_commands(const std::vector<std::string>& own,
                                                  DatabasePassword password) {
  std::vector<std::string> variables;
  for (const std::string& variable : own) {
    if (variable.starts_with("ONCEBOX_")) continue;
    if (password == DatabasePassword::of_the_worker && variable.starts_with("PGPASSWORD="))
      continue;
    variables.push_back(variable);
  }
  return variables;
}

std::vector<std::string> message_variables(const ClaimedMessage& claimed, std::string_view store) {
  const Message& message = claimed.message;
  std::vector<std::string> variables;
  if (!store.empty()) variables.push_back(fmt::format("ONCEBOX_STORE={}", store));
  variables.push_back("ONCEBOX_SOURCE=" + message.key.source.str());
  variables.push_back("ONCEBOX_MESSAGE_ID=" + message.key.message_id.str());
  variables.push_back("ONCEBOX_MESSAGE_FILE=" + message_file_name(message.key, store));
  variables.push_back("ONCEBOX_TOPIC=" + message.topic.str());
  variables.push_back(fmt::format("ONCEBOX_ATTEMPT={}", claimed.history.attempt + 1));
  variables.push_back(
      fmt::format("ONCEBOX_DELIVERY={}", static_cast<std::uint64_t>(claimed.delivery)));
  if (message.partition_key) {
    variables.push_back("ONCEBOX_PARTITION_KEY=" + message.partition_key->str());
  }
  add_headers_one_by_one(variables, message.headers);
  add_headers_together(variables, message.headers);
  return variables;
}

std::string message_file_name(const MessageKey& key, std::string_view store) {
  constexpr std::size_t kBytes = 20;  // as long as an id of git, and too long to collide
  std::string text;
  if (!store.empty()) text.append(store).push_back('\0');
  text += key.source.str();
  text += '\0';
  text += key.message_id.str();
  return to_hex(sha256(text).substr(0, kBytes));
}

}  // namespace oncebox::app
