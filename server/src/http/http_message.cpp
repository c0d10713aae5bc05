#include "http/http_message.hpp"

#include <arpa/inet.h>

namespace oncebox::server {

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
    if (equal_ignoring_case(entry, name)) return value;
  }
  return std::nullopt;
}

void Fields::remove(std::string_view name) {
  std::erase_if(entries_,
                [name](const Entry& entry) { return equal_ignoring_case(entry.first, name); });
}

std::optional<std::string_view> Request::query_value(std::string_view name) const noexcept {
  for (const auto& parameter : query) {
    if (parameter.name == name) return parameter.value;
  }
  return std::nullopt;
}

std::string network_of(const std::string& peer) {
  in6_addr address{};
  if (inet_pton(AF_INET6, peer.c_str(), &address) != 1) return peer;
  constexpr std::size_t kNetworkBytes = 8;
  return {reinterpret_cast<const char*>(address.s6_addr), kNetworkBytes};
}

}  // namespace oncebox::server
