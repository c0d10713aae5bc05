#include <algorithm>

#include "http/request_parser.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::server {

namespace {

std::optional<std::string> decode_form(std::string_view text) {
  if (text.find_first_of("+%") == std::string_view::npos) return std::string(text);
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return wire::percent_decode(spaced);
}

std::optional<std::vector<wire::QueryParameter>> read_query(std::string_view query,
                                                            std::size_t max_parameters) {
  std::vector<wire::QueryParameter> parameters;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view part = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (part.empty()) continue;
    if (parameters.size() == max_parameters) return std::nullopt;
    const std::size_t equals = std::min(part.find('='), part.size());
    auto name = decode_form(part.substr(0, equals));
    auto value = decode_form(part.substr(std::min(equals + 1, part.size())));
    if (!name || !value) return std::nullopt;
    parameters.push_back({.name = std::move(*name), .value = std::move(*value)});
  }
  return parameters;
}

/// Cuts `http://host` off a target in absolute form.
std::optional<std::string> cut_authority(std::string_view& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() ||
        !equal_ignoring_case(target.substr(0, scheme.size()), scheme)) {
      continue;
    }
    target.remove_prefix(scheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    std::string authority(target.substr(0, end));
    target.remove_prefix(end);
    return authority;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Target> read_target(std::string_view target, std::size_t max_parameters) {
  Target result;
  result.authority = cut_authority(target);
  if (target.find('#') != std::string_view::npos) return std::nullopt;
  const std::size_t question = std::min(target.find('?'), target.size());
  result.path = target.substr(0, question);
  if (result.path.empty() && result.authority) result.path = "/";
  const bool is_server = result.path == "*" && question == target.size() && !result.authority;
  if (!is_server && (result.path.empty() || result.path.front() != '/')) return std::nullopt;
  if (question < target.size()) {
    auto query = read_query(target.substr(question + 1), max_parameters);
    if (!query) return std::nullopt;
    result.query = std::move(*query);
  }
  return result;
}

}  // namespace oncebox::server
