#include "oncebox/driver/store_url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "oncebox/error.hpp"
#include "oncebox/internal/authority.hpp"
#include "oncebox/internal/utf8.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kMaxUrlBytes = 8 * 1024;

[[noreturn]] void reject(const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              why + "; a store URL looks like memory: or sqlite:oncebox.db?name=value");
}

bool is_scheme(std::string_view text) {
  if (text.empty() || text.front() < 'a' || text.front() > 'z') return false;
  for (const char c : text) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-')) return false;
  }
  return true;
}

std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2) {
      reject("a parameter of the store URL has a % that is not followed by two hex digits");
    }
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

// Where the parameters begin, if there are any. People do not escape their passwords.
std::size_t find_question_mark(std::string_view location) {
  std::size_t from = 0;
  if (location.starts_with("//")) {
    const std::size_t end = location.find_first_of("@/", 2);
    if (end != std::string_view::npos && location[end] == '@') from = end;
  }
  return location.find('?', from);
}

// Of hosts with commas between them, as PostgreSQL takes them; `prefix` stands before each. A
// client library would find out when it connects.
void require_possible_ports(std::string_view hosts, std::string_view prefix = {}) {
  while (!hosts.empty()) {
    const std::size_t end = std::min(hosts.find(','), hosts.size());
    if (!detail::has_possible_port(fmt::format("{}{}", prefix, hosts.substr(0, end)))) {
      reject("a port of the store URL is not one of 1 to 65535");
    }
    hosts.remove_prefix(std::min(end + 1, hosts.size()));
  }
}

// `host:port` of `//user:password@host:port/path`.
std::string_view hosts_in(std::string_view location) {
  if (!location.starts_with("//")) return {};
  const std::string_view authority = location.substr(2, location.find('/', 2) - 2);
  return authority.substr(authority.rfind('@') + 1);
}

}  // namespace

StoreUrl::StoreUrl(std::string_view text) {
  if (text.size() > kMaxUrlBytes) reject("the store URL is longer than 8 KiB");
  if (!detail::count_code_points(text)) reject("the store URL is not valid UTF-8");
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || !is_scheme(text.substr(0, colon))) {
    reject("the store URL does not begin with a scheme");
  }
  scheme_ = text.substr(0, colon);
  std::string_view rest = text.substr(colon + 1);
  const std::size_t question = find_question_mark(rest);
  location_ = rest.substr(0, question);
  require_possible_ports(hosts_in(location_));
  if (question == std::string_view::npos) return;

  rest.remove_prefix(question + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      reject("a parameter of the store URL is not of the form name=value");
    }
    parameters_.push_back({.name = unescape(pair.substr(0, equals)),
                           .value = unescape(pair.substr(equals + 1)),
                           .written = std::string(pair)});
    if (parameters_.back().name == "port") require_possible_ports(parameters_.back().value, ":");
  }
}

std::optional<std::string> StoreUrl::take(std::string_view name) {
  const auto is_it = [&](const Parameter& parameter) { return parameter.name == name; };
  const auto found = std::find_if(parameters_.begin(), parameters_.end(), is_it);
  if (found == parameters_.end()) return std::nullopt;
  if (std::any_of(found + 1, parameters_.end(), is_it)) {
    reject(fmt::format("the store URL has the parameter {} twice", name));
  }
  std::string value = std::move(found->value);
  parameters_.erase(found);
  return value;
}

std::optional<std::uint64_t> StoreUrl::take_number(std::string_view name) {
  const std::optional<std::string> text = take(name);
  if (!text) return std::nullopt;
  std::uint64_t number = 0;
  const char* const last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, number);
  if (error != std::errc{} || end != last) {
    reject(fmt::format("the parameter {} of the store URL is not a whole number", name));
  }
  return number;
}

std::optional<bool> StoreUrl::take_switch(std::string_view name) {
  const std::optional<std::string> text = take(name);
  if (!text) return std::nullopt;
  if (*text != "on" && *text != "off") {
    reject(fmt::format("the parameter {} of the store URL is neither on nor off", name));
  }
  return *text == "on";
}

void StoreUrl::require_no_more_parameters() const {
  if (parameters_.empty()) return;
  reject(fmt::format("the {} store knows no parameter {}", scheme_, parameters_.front().name));
}

std::string StoreUrl::without_taken() const {
  std::string text = scheme_ + ':' + location_;
  char separator = '?';
  for (const Parameter& parameter : parameters_) {
    text += separator;
    text += parameter.written;
    separator = '&';
  }
  return text;
}

std::string database_server(std::string_view url) {
  try {
    const StoreUrl parts(url);
    std::string_view hosts = parts.location();
    if (!hosts.starts_with("//")) return parts.scheme();
    hosts.remove_prefix(2);
    if (const auto user_end = hosts.rfind('@'); user_end != std::string_view::npos) {
      hosts.remove_prefix(user_end + 1);
    }
    hosts = hosts.substr(0, hosts.find('/'));
    return fmt::format("{}://{}", parts.scheme(), hosts);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace oncebox
