#include "http/http_message.hpp"

#include <algorithm>

namespace oncebox::server {

namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

}  // namespace

bool same_name(std::string_view left, std::string_view right) noexcept {
  return left.size() == right.size() &&
         std::equal(left.begin(), left.end(), right.begin(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::string_view to_string(Method method) noexcept {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::head:
      return "HEAD";
    case Method::post:
      return "POST";
    case Method::put:
      return "PUT";
    case Method::patch:
      return "PATCH";
    case Method::delete_:
      return "DELETE";
    case Method::options:
      return "OPTIONS";
    case Method::other:
      return "other";
  }
  return "other";
}

std::optional<std::string_view> Fields::get(std::string_view name) const noexcept {
  for (const auto& [entry, value] : entries_) {
    if (same_name(entry, name)) return value;
  }
  return std::nullopt;
}

void Fields::remove(std::string_view name) {
  std::erase_if(entries_, [name](const Entry& entry) { return same_name(entry.first, name); });
}

std::optional<std::string_view> Request::query_value(std::string_view name) const noexcept {
  for (const auto& parameter : query) {
    if (parameter.name == name) return parameter.value;
  }
  return std::nullopt;
}

}  // namespace oncebox::server
