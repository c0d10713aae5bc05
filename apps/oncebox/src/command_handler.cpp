#include "command_handler.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "values.hpp"

namespace oncebox::app {
namespace {

// What a command's exit code means; every other code means that it failed and is to be tried again.
constexpr int kAck = 0;
constexpr int kPermanentFailure = 65;
constexpr int kTryAgain = 75;

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

constexpr std::string_view kMessageVariables[] = {
    "ONCEBOX_STORE=",   "ONCEBOX_SOURCE=",   "ONCEBOX_MESSAGE_ID=",    "ONCEBOX_TOPIC=",
    "ONCEBOX_ATTEMPT=", "ONCEBOX_DELIVERY=", "ONCEBOX_PARTITION_KEY=", "ONCEBOX_HEADER_"};

/// Our own environment without what would be taken for a field of the message.
std::vector<std::string> base_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool is_field =
        std::any_of(std::begin(kMessageVariables), std::end(kMessageVariables),
                    [&](std::string_view name) { return text.starts_with(name); });
    if (!is_field) variables.emplace_back(text);
  }
  return variables;
}

}  // namespace

CommandHandler::CommandHandler(CommandHandlerOptions options)
    : options_(std::move(options)), environment_(base_environment()) {}

void CommandHandler::handle(const ClaimedMessage& claimed, HandlerContext& context) {
  const ChildRequest request{.command = options_.command,
                             .environment = environment_for(claimed, context.store()),
                             .input = claimed.message.payload.bytes(),
                             .timeout = options_.timeout,
                             .grace = options_.grace};
  const ChildResult result =
      run_child(request, context.stop_token(), [this](std::string_view line) { pass_on(line); });
  judge(result);
}

std::vector<std::string> CommandHandler::environment_for(const ClaimedMessage& claimed,
                                                         std::string_view store) const {
  std::vector<std::string> variables = environment_;
  const Message& message = claimed.message;
  if (options_.tells_store) variables.push_back("ONCEBOX_STORE=" + std::string(store));
  variables.push_back("ONCEBOX_SOURCE=" + message.key.source.str());
  variables.push_back("ONCEBOX_MESSAGE_ID=" + message.key.message_id.str());
  variables.push_back("ONCEBOX_TOPIC=" + message.topic.str());
  variables.push_back(fmt::format("ONCEBOX_ATTEMPT={}", claimed.history.attempt + 1));
  variables.push_back(
      fmt::format("ONCEBOX_DELIVERY={}", static_cast<std::uint64_t>(claimed.delivery)));
  if (message.partition_key) {
    variables.push_back("ONCEBOX_PARTITION_KEY=" + message.partition_key->str());
  }
  for (const auto& [name, value] : message.headers) {
    variables.push_back(header_variable(name) + "=" + value);
  }
  return variables;
}

// Whole lines, so that those of several commands do not mix.
void CommandHandler::pass_on(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  const detail::Lock lock(mutex_);
  // Where it cannot be written nobody can be told so.
  (void)!write(STDERR_FILENO, text.data(), text.size());
}

// Throws what the dispatcher takes for this end; returns when the message is done.
void CommandHandler::judge(const ChildResult& result) const {
  const std::string& said = result.last_error_line;
  const auto with_reason = [&](const std::string& what) {
    return said.empty() ? what : fmt::format("{}: {}", what, said);
  };
  switch (result.end) {
    case ChildResult::End::stopped:
      throw std::runtime_error("stopped");
    case ChildResult::End::timed_out:
      throw std::runtime_error(
          with_reason(fmt::format("timed out after {}", format_duration(options_.timeout))));
    case ChildResult::End::killed:
      throw std::runtime_error(with_reason(fmt::format("killed by signal {}", result.signal)));
    case ChildResult::End::exited:
      break;
  }
  if (result.exit_code == kAck) return;
  if (result.exit_code == kPermanentFailure) {
    throw PermanentFailure(said.empty() ? "exit code 65" : said);
  }
  if (result.exit_code == kTryAgain && !said.empty()) throw std::runtime_error(said);
  throw std::runtime_error(with_reason(fmt::format("exit code {}", result.exit_code)));
}

}  // namespace oncebox::app
