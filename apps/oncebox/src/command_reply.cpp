#include "command_reply.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/error.hpp"
#include "printable.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view without_blanks_around(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text.remove_suffix(text.size() - (text.find_last_not_of(kBlanks) + 1));
  return text;
}

}  // namespace

CommandReply parse_reply(std::string_view text) {
  const std::string_view reply = without_blanks_around(text);
  const std::size_t end = std::min(reply.find_first_of(kBlanks), reply.size());
  const std::string_view word = reply.substr(0, end);
  const std::string_view delay = without_blanks_around(reply.substr(end));
  using Word = CommandReply::Word;
  if (word == "retry-after") return {Word::retry_after, parse_duration(delay)};
  if (word == "not-now") return {Word::not_now, parse_duration(delay)};
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is no reply; write retry-after 30s or not-now 30s",
                          fitted(printable(word), 40)));
}

}  // namespace oncebox::app
