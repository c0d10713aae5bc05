#include "oncebox/internal/authority.hpp"

#include <algorithm>
#include <charconv>

#include "oncebox/internal/http_text.hpp"

namespace oncebox::detail {

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_host_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter_or_digit(c) ||
           std::string_view("-._~%!$&'()*+,;=").find(c) != std::string_view::npos;
  });
}

bool is_bracketed_address(std::string_view text) {
  return text.size() > 4 && text.front() == '[' && text.back() == ']' &&
         std::all_of(text.begin() + 1, text.end() - 1, [](char c) {
           return c == ':' || c == '.' || kHexDigits.find(c) != std::string_view::npos;
         });
}

/// Where the colon before the port is, or the end.
std::size_t end_of_host(std::string_view text) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  return std::min(text.find(':', std::min(bracket, text.size())), text.size());
}

/// Of the text behind the colon; nothing when it cannot be a port.
std::optional<std::uint16_t> read_port(std::string_view digits) {
  std::uint16_t port = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, port);
  if (error != std::errc{} || end != last || port == 0) return std::nullopt;
  return port;
}

}  // namespace

std::optional<Authority> read_authority(std::string_view text) noexcept {
  const std::size_t end = end_of_host(text);
  Authority authority{.host = text.substr(0, end)};
  if (!is_host_name(authority.host) && !is_bracketed_address(authority.host)) return std::nullopt;
  if (!has_possible_port(text)) return std::nullopt;
  if (end + 1 < text.size()) authority.port = read_port(text.substr(end + 1));
  return authority;
}

bool has_possible_port(std::string_view host_and_port) noexcept {
  const std::size_t end = end_of_host(host_and_port);
  return end + 1 >= host_and_port.size() || read_port(host_and_port.substr(end + 1)).has_value();
}

std::string_view authority_of(std::string_view url) noexcept {
  const std::size_t slashes = url.find("//");
  if (slashes == std::string_view::npos) return {};
  url.remove_prefix(slashes + 2);
  url = url.substr(0, url.find_first_of("/?#"));
  return url.substr(url.rfind('@') + 1);
}

bool is_loopback_host(std::string_view host) noexcept {
  constexpr std::string_view kBelow = ".localhost";
  if (equal_ignoring_case(host, "localhost") || host == "[::1]") return true;
  if (host.starts_with("127.")) return host.find_first_not_of("0123456789.") == host.npos;
  return host.size() > kBelow.size() &&
         equal_ignoring_case(host.substr(host.size() - kBelow.size()), kBelow);
}

}  // namespace oncebox::detail
