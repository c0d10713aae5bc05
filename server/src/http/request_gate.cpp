#include "http/request_gate.hpp"

#include <algorithm>

#include "http/answers.hpp"

namespace oncebox::server {

namespace {

constexpr const char* kCorsRequestFields =
    "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id, traceparent, "
    "tracestate";
constexpr const char* kCorsMaxAgeSeconds = "600";

Response refusal(int status, std::string code, std::string title, std::string detail,
                 const Request& request) {
  return problem_response({.status = status,
                           .code = std::move(code),
                           .title = std::move(title),
                           .detail = std::move(detail)},
                          request);
}

/// The host of `Host: name:port`.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, std::min(host.find(']') + 1, host.size()));
  return host.substr(0, host.find(':'));
}

/// An address, and no name that begins like one.
bool is_loopback_address(std::string_view name) {
  return name == "[::1]" || (name.starts_with("127.") &&
                             name.find_first_not_of("0123456789.") == std::string_view::npos);
}

bool is_local_host(std::string_view host) {
  const std::string_view name = without_port(host);
  constexpr std::string_view kSuffix = ".localhost";
  return equal_ignoring_case(name, "localhost") || is_loopback_address(name) ||
         (name.size() > kSuffix.size() &&
          equal_ignoring_case(name.substr(name.size() - kSuffix.size()), kSuffix));
}

/// `https://shop.example:8443` gives `shop.example:8443`.
std::string_view host_of_origin(std::string_view origin) {
  const std::size_t at = origin.find("://");
  return at == std::string_view::npos ? std::string_view{} : origin.substr(at + 3);
}

bool changes_nothing(Method method) {
  return method == Method::get || method == Method::head || method == Method::options;
}

}  // namespace

RequestGate::RequestGate(const ServerOptions& options, const Router& router,
                         const Authenticator& authenticator)
    : cors_origins_(options.cors_origins),
      only_local_hosts_if_open_(!options.listen.allow_anonymous_remote &&
                                !options.tls.require_client_certificate),
      router_(router),
      authenticator_(authenticator) {}

RequestGate::Verdict RequestGate::admit(Request& request,
                                        const std::optional<std::string>& certificate_name) const {
  if (auto refused = check_origin(request)) return {.refusal = std::move(refused)};
  Verdict verdict = check_route(request);
  if (verdict.route == nullptr) return verdict;
  verdict.refusal = check_scope(request, *verdict.route, certificate_name);
  return verdict;
}

std::optional<Response> RequestGate::check_origin(const Request& request) const {
  const std::string_view host = request.fields.get("Host").value_or(std::string_view{});
  if (only_local_hosts_if_open_ && !host.empty() && !authenticator_.has_tokens() &&
      !is_local_host(host)) {
    return refusal(421, "misdirected", "Not a host of this server",
                   "without tokens it answers to localhost only; set up tokens, or allow "
                   "anonymous callers from elsewhere",
                   request);
  }
  const auto origin = request.fields.get("Origin");
  if (!origin || changes_nothing(request.method) || is_allowed(*origin)) return std::nullopt;
  if (equal_ignoring_case(host_of_origin(*origin), host) && !host.empty()) return std::nullopt;
  return refusal(403, "forbidden", "Another origin",
                 "pages of this origin may not call; see cors_origins", request);
}

RequestGate::Verdict RequestGate::check_route(Request& request) const {
  if (request.method == Method::options && request.path == "*") {
    return {.refusal = answer_options(request, "GET, HEAD, POST")};
  }
  auto found = router_.find(request.method, request.path);
  if (auto* match = std::get_if<Match>(&found)) {
    request.arguments = std::move(match->arguments);
    return {.route = match->route};
  }
  if (const auto* other = std::get_if<NoSuchMethod>(&found)) {
    if (request.method == Method::options) {
      return {.refusal = answer_options(request, other->allowed)};
    }
    Response response = refusal(405, "method_not_allowed", "Not for this method",
                                "this path takes " + other->allowed, request);
    response.fields.add("Allow", other->allowed);
    return {.refusal = std::move(response)};
  }
  if (std::holds_alternative<BadPath>(found)) {
    return {.refusal = refusal(400, "bad_request", "Not a request that can be understood",
                               "an escape in the path is broken", request)};
  }
  return {.refusal = refusal(404, "not_found", "Nothing here", "no such path; see /docs", request)};
}

std::optional<Response> RequestGate::check_scope(
    Request& request, const Route& route,
    const std::optional<std::string>& certificate_name) const {
  Credentials credentials{.authorization = request.fields.get("Authorization")};
  if (certificate_name) credentials.certificate_name = *certificate_name;
  auto checked = authenticator_.check(credentials, route.scope);
  if (auto* principal = std::get_if<Principal>(&checked)) {
    request.principal = std::move(*principal);
    if (holds_limits(route, request.principal)) return std::nullopt;
    return refusal(403, "forbidden", "Not allowed",
                   "this token is limited to some stores, sources or topics, and this call is not",
                   request);
  }
  if (auto* forbidden = std::get_if<Forbidden>(&checked)) {
    request.principal = std::move(forbidden->principal);
    const std::string scope(to_string(route.scope));
    Response response =
        refusal(403, "forbidden", "Not allowed", "this needs the scope " + scope, request);
    response.fields.add(
        "WWW-Authenticate",
        R"(Bearer realm="oncebox", error="insufficient_scope", scope=")" + scope + '"');
    return response;
  }
  const bool showed_token = std::get<Unauthorized>(checked).showed_token;
  Response response = refusal(
      401, "unauthorized", "Who are you?",
      showed_token ? "the token is not known here" : "this needs Authorization: Bearer and a token",
      request);
  response.fields.add("WWW-Authenticate", showed_token
                                              ? R"(Bearer realm="oncebox", error="invalid_token")"
                                              : R"(Bearer realm="oncebox")");
  return response;
}

Response RequestGate::answer_options(const Request& request, const std::string& allowed) const {
  Response response;
  response.status = 204;
  response.fields.add("Allow", allowed + ", OPTIONS");
  const auto origin = request.fields.get("Origin");
  if (origin && is_allowed(*origin) && request.fields.get("Access-Control-Request-Method")) {
    response.fields.add("Access-Control-Allow-Methods", allowed);
    response.fields.add("Access-Control-Allow-Headers", kCorsRequestFields);
    response.fields.add("Access-Control-Max-Age", kCorsMaxAgeSeconds);
  }
  return response;
}

bool RequestGate::is_allowed(std::string_view origin) const {
  return std::any_of(cors_origins_.begin(), cors_origins_.end(), [origin](const auto& allowed) {
    return allowed == "*" || equal_ignoring_case(allowed, origin);
  });
}

void RequestGate::add_cors_fields(const Request& request, Response& response) const {
  if (cors_origins_.empty()) return;
  const auto origin = request.fields.get("Origin");
  if (!origin || !is_allowed(*origin)) return;
  response.fields.add("Access-Control-Allow-Origin", std::string(*origin));
  response.fields.add("Access-Control-Expose-Headers",
                      "X-Request-Id, Retry-After, WWW-Authenticate");
}

}  // namespace oncebox::server
