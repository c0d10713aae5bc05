#include "http/media_type.hpp"

#include <algorithm>

namespace oncebox::server {

namespace {

/// Cuts off the type, or the parameter behind it: what stands before the next `;`.
std::string_view cut_part(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(';'), rest.size());
  const std::string_view part = detail::without_blanks_around(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

bool is_other_charset(std::string_view parameter) {
  const std::size_t equals = std::min(parameter.find('='), parameter.size());
  if (!equal_ignoring_case(parameter.substr(0, equals), "charset")) return false;
  std::string_view value = parameter.substr(std::min(equals + 1, parameter.size()));
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    value = value.substr(1, value.size() - 2);
  }
  return !equal_ignoring_case(value, "utf-8") && !equal_ignoring_case(value, "us-ascii");
}

}  // namespace

MediaType media_type(const Fields& fields) noexcept {
  const auto field = fields.get("Content-Type");
  if (!field) return MediaType::none;
  std::string_view rest = *field;
  const std::string_view type = cut_part(rest);
  if (type.empty()) return MediaType::none;
  while (!rest.empty()) {
    if (is_other_charset(cut_part(rest))) return MediaType::other;
  }
  if (equal_ignoring_case(type, "application/json")) return MediaType::json;
  for (const char* name : {"application/x-ndjson", "application/ndjson", "application/jsonl"}) {
    if (equal_ignoring_case(type, name)) return MediaType::ndjson;
  }
  return MediaType::other;
}

}  // namespace oncebox::server
