#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/authenticator.hpp"
#include "http/http_message.hpp"
#include "http/router.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

/// The route of a request that none has, in logs and metrics.
inline constexpr std::string_view kNoRoute = "none";

/// Decides by its head alone whether a request comes in: is it meant for this server, does a route
/// take it, may its sender call that, can its body be read. Pages of other origins are kept out,
/// unless the options allow theirs, and so are names that were made to point at this machine (DNS
/// rebinding) while nothing but the loopback address guards it.
class RequestGate {
 public:
  /// Router and authenticator are borrowed.
  RequestGate(const ServerOptions& options, const Router& router,
              const Authenticator& authenticator);

  struct Verdict {
    const Route* route = nullptr;          ///< nothing: no route takes it
    std::optional<Response> refusal = {};  ///< the answer, when it does not come in
  };
  /// Fills in the principal and the arguments of the request.
  [[nodiscard]] Verdict admit(Request& request,
                              const std::optional<std::string>& certificate_name) const;

  /// Checks the token of a request that came in by this route again. Safe from any thread.
  [[nodiscard]] Standing check_again(const Request& request, const Route& route,
                                     const std::optional<std::string>& certificate_name) const;

  /// Adds what lets a page of an allowed origin read the answer.
  void add_cors_fields(const Request& request, Response& response) const;

 private:
  [[nodiscard]] std::optional<Response> check_origin(const Request& request) const;
  [[nodiscard]] Verdict check_route(Request& request) const;
  /// Tells who asks in `principal`.
  [[nodiscard]] std::optional<Response> check_scope(
      const Request& request, const Route& route,
      const std::optional<std::string>& certificate_name, Principal& principal) const;
  [[nodiscard]] std::optional<Response> check_page(const Request& request,
                                                   const Route& route) const;
  [[nodiscard]] static std::optional<Response> check_encoding(const Request& request);
  [[nodiscard]] Response answer_options(const Request& request, const std::string& allowed) const;
  [[nodiscard]] bool is_allowed(std::string_view origin) const;

  const std::vector<std::string> cors_origins_;
  const bool only_local_hosts_if_open_;
  const std::string_view scheme_;  ///< of this server's own origin
  const Router& router_;
  const Authenticator& authenticator_;
};

}  // namespace oncebox::server
