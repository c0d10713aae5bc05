#include "oncebox/wire/problem.hpp"

#include <array>
#include <boost/json.hpp>
#include <string>

#include "json_writer.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::wire {

namespace {

constexpr std::string_view kTypePrefix = "urn:oncebox:error:";
constexpr std::size_t kMaxDetailBytes = 2'048;

struct CodeEntry {
  ErrorCode code;
  int status;
  std::string_view title;
};

constexpr std::array kCodes = {
    CodeEntry{ErrorCode::invalid_argument, 400, "The request is not acceptable"},
    CodeEntry{ErrorCode::out_of_range, 400, "A value is out of its range"},
    CodeEntry{ErrorCode::not_found, 404, "Not found"},
    CodeEntry{ErrorCode::conflict, 409, "The state does not allow it"},
    CodeEntry{ErrorCode::overloaded, 503, "Too much to do; try again later"},
    CodeEntry{ErrorCode::unavailable, 503, "The store cannot be reached; try again later"},
    CodeEntry{ErrorCode::timeout, 504, "The store took too long; nothing changed; try again"},
    CodeEntry{ErrorCode::cancelled, 503, "The call was stopped; nothing changed"},
    CodeEntry{ErrorCode::outcome_unknown, 502,
              "It may or may not have taken effect; repeating the request is safe"},
    CodeEntry{ErrorCode::unsupported, 501, "This store cannot do it"},
    CodeEntry{ErrorCode::corrupt, 500, "Stored data contradicts itself"},
    CodeEntry{ErrorCode::internal, 500, "A defect in Oncebox"},
};

const CodeEntry& entry_of(ErrorCode code) noexcept {
  for (const CodeEntry& entry : kCodes) {
    if (entry.code == code) return entry;
  }
  return kCodes.back();
}

ErrorCode code_by_status(int status) noexcept {
  if (status == 429) return ErrorCode::overloaded;
  if (status == 404) return ErrorCode::not_found;
  if (status >= 400 && status < 500) return ErrorCode::invalid_argument;
  if (status >= 500) return ErrorCode::outcome_unknown;
  // Neither an answer of ours nor a failure: somebody else speaks at that address.
  return ErrorCode::internal;
}

std::optional<ErrorCode> code_by_word(std::string_view word) noexcept {
  for (const CodeEntry& entry : kCodes) {
    if (to_string(entry.code) == word) return entry.code;
  }
  return std::nullopt;
}

std::string text_of(const boost::json::object& problem, std::string_view name) {
  const boost::json::value* const value = problem.if_contains(name);
  const boost::json::string* const text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : std::string(*text);
}

}  // namespace

int http_status(ErrorCode code) noexcept { return entry_of(code).status; }

Problem problem_of(const Error& error) {
  const CodeEntry& entry = entry_of(error.code());
  return {.status = entry.status,
          .code = std::string(to_string(error.code())),
          .title = std::string(entry.title),
          .detail = error.what()};
}

Error error_of(int status, std::string_view body) {
  const std::string by_whom = "the server answered with status " + std::to_string(status);
  boost::json::error_code not_json;
  const boost::json::value parsed = boost::json::parse(body, not_json);
  const boost::json::object* const problem = not_json ? nullptr : parsed.if_object();
  const std::string word = problem == nullptr ? std::string() : text_of(*problem, "code");
  if (word.empty()) return {code_by_status(status), by_whom};

  std::string text = text_of(*problem, "detail");
  if (text.empty()) text = text_of(*problem, "title");
  if (text.empty()) text = by_whom;
  const std::optional<ErrorCode> code = code_by_word(word);
  // HTTP's own codes have no error of that name: the word stays in the text.
  if (!code) text = word + ": " + text;
  return {code.value_or(code_by_status(status)), clip_text(text, kMaxDetailBytes)};
}

std::string write_problem(const Problem& problem) {
  JsonWriter writer;
  writer.begin_object()
      .field("type", std::string(kTypePrefix) + problem.code)
      .field("title", clip_text(problem.title, kMaxDetailBytes))
      .field("status", problem.status)
      .field("code", problem.code);
  // Texts of errors may come from a driver: what is no UTF-8 must not break the JSON.
  if (!problem.detail.empty()) writer.field("detail", clip_text(problem.detail, kMaxDetailBytes));
  if (!problem.request_id.empty()) {
    writer.field("requestId", clip_text(problem.request_id, kMaxDetailBytes));
  }
  return std::move(writer.end_object()).take();
}

}  // namespace oncebox::wire
