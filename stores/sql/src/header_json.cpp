#include "oncebox/sql/header_json.hpp"

#include <boost/json.hpp>

#include "oncebox/error.hpp"

namespace oncebox::sql {

namespace json = boost::json;

std::optional<std::string> to_json(const Headers& headers) {
  if (headers.empty()) return std::nullopt;
  json::object object;
  for (const auto& [name, value] : headers) object[name] = value;
  return json::serialize(object);
}

Headers headers_from_json(std::string_view text) {
  Headers headers;
  json::error_code error;
  const json::value value = json::parse(text, error);
  const json::object* const object = error ? nullptr : value.if_object();
  if (object == nullptr) {
    throw Error(ErrorCode::corrupt, "the stored headers of a message are no JSON object");
  }
  for (const auto& [name, entry] : *object) {
    const json::string* const text_value = entry.if_string();
    if (text_value == nullptr) {
      throw Error(ErrorCode::corrupt, "a stored header of a message is no text");
    }
    headers.set(name, *text_value);
  }
  return headers;
}

}  // namespace oncebox::sql
