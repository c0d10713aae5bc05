#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oncebox::webhook {

/// The proxies that the environment names, as libcurl reads it: `http_proxy` (in lower case alone,
/// because a CGI program's caller chooses HTTP_PROXY), `https_proxy`, `all_proxy`, `no_proxy`.
/// `no_proxy` is read by names alone: addresses go through the proxy unless they are spelt out.
class EnvironmentProxy {
 public:
  /// Reads the environment once.
  EnvironmentProxy();

  /// Empty when requests to this host need none. An IPv6 address comes without brackets.
  [[nodiscard]] std::string_view for_host(std::string_view scheme,
                                          std::string_view host) const noexcept;

 private:
  std::string http_;
  std::string https_;
  std::vector<std::string> without_;  ///< hosts, without a dot before them; `*`: all
};

}  // namespace oncebox::webhook
