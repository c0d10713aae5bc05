#include "environment_proxy.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "oncebox/internal/http_text.hpp"

namespace oncebox::webhook {

namespace {

/// The first of the variables that is there and not empty.
std::string variable(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

std::vector<std::string> hosts_of(std::string_view list) {
  constexpr std::string_view kBetween = ", \t";
  std::vector<std::string> hosts;
  while (!list.empty()) {
    std::string_view host = list.substr(0, list.find_first_of(kBetween));
    list.remove_prefix(std::min(host.size() + 1, list.size()));
    if (host.starts_with('.')) host.remove_prefix(1);
    if (!host.empty()) hosts.emplace_back(host);
  }
  return hosts;
}

/// Whether it is this host, or one below it.
bool covers(std::string_view above, std::string_view host) noexcept {
  if (above == "*") return true;
  if (host.size() < above.size()) return false;
  const std::size_t at = host.size() - above.size();
  return detail::equal_ignoring_case(host.substr(at), above) && (at == 0 || host[at - 1] == '.');
}

}  // namespace

EnvironmentProxy::EnvironmentProxy()
    : http_(variable({"http_proxy", "all_proxy", "ALL_PROXY"})),
      https_(variable({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})),
      without_(hosts_of(variable({"no_proxy", "NO_PROXY"}))) {}

std::string_view EnvironmentProxy::for_host(std::string_view scheme,
                                            std::string_view host) const noexcept {
  const bool needs_none = std::any_of(without_.begin(), without_.end(),
                                      [&](const auto& above) { return covers(above, host); });
  if (needs_none) return {};
  return scheme == "https" ? https_ : http_;
}

}  // namespace oncebox::webhook
