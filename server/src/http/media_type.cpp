#include "http/media_type.hpp"

#include <algorithm>

namespace oncebox::server {

namespace {

std::string_view trimmed_token(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Cuts off what stands before the next `;`.
std::string_view cut_parameter(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(';'), rest.size());
  const std::string_view part = trimmed_token(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

bool is_other_charset(std::string_view parameter) {
  const std::size_t equals = std::min(parameter.find('='), parameter.size());
  if (!same_name(parameter.substr(0, equals), "charset")) return false;
  std::string_view value = parameter.substr(std::min(equals + 1, parameter.size()));
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    value = value.substr(1, value.size() - 2);
  }
  return !same_name(value, "utf-8") && !same_name(value, "us-ascii");
}

}  // namespace

MediaType media_type(const Fields& fields) noexcept {
  const auto field = fields.get("Content-Type");
  if (!field) return MediaType::none;
  std::string_view rest = *field;
  const std::string_view type = cut_parameter(rest);
  if (type.empty()) return MediaType::none;
  while (!rest.empty()) {
    if (is_other_charset(cut_parameter(rest))) return MediaType::other;
  }
  if (same_name(type, "application/json")) return MediaType::json;
  for (const char* name : {"application/x-ndjson", "application/ndjson", "application/jsonl"}) {
    if (same_name(type, name)) return MediaType::ndjson;
  }
  return MediaType::other;
}

}  // namespace oncebox::server
