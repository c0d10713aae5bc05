#include "http/request_gate.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>

#include "http/answers.hpp"
#include "oncebox/internal/authority.hpp"

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

bool is_local_host(std::string_view host) {
  const auto authority = detail::read_authority(host);
  return authority && detail::is_loopback_host(authority->host);
}

/// Whether an origin such as `https://shop.example:8443` is that of a server with this scheme and
/// this field Host.
bool is_origin_of(std::string_view scheme, std::string_view host, std::string_view origin) {
  constexpr std::string_view kSeparator = "://";
  const std::size_t end = std::min(origin.find(kSeparator), origin.size());
  if (end == origin.size() || !equal_ignoring_case(origin.substr(0, end), scheme)) return false;
  const auto page = detail::read_authority(origin.substr(end + kSeparator.size()));
  const auto server = detail::read_authority(host);
  if (!page || !server) return false;
  const std::uint16_t usual_port = scheme == "https" ? 443 : 80;
  return equal_ignoring_case(page->host, server->host) &&
         page->port.value_or(usual_port) == server->port.value_or(usual_port);
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
      scheme_(options.tls.enabled() ? "https" : "http"),
      router_(router),
      authenticator_(authenticator) {}

RequestGate::Verdict RequestGate::admit(Request& request,
                                        const std::optional<std::string>& certificate_name) const {
  if (auto refused = check_origin(request)) return {.refusal = std::move(refused)};
  Verdict verdict = check_route(request);
  if (verdict.route == nullptr) return verdict;
  Principal principal;
  verdict.refusal = check_scope(request, *verdict.route, certificate_name, principal);
  request.principal = std::move(principal);
  if (!verdict.refusal) verdict.refusal = check_page(request, *verdict.route);
  if (!verdict.refusal) verdict.refusal = check_encoding(request);
  if (verdict.refusal || !verdict.route->check_head) return verdict;
  try {
    verdict.route->check_head(request);
  } catch (...) {
    verdict.refusal = failure_response(std::current_exception(), request);
  }
  return verdict;
}

Standing RequestGate::check_again(const Request& request, const Route& route,
                                  const std::optional<std::string>& certificate_name) const {
  Principal principal;
  Standing standing{.refusal = check_scope(request, route, certificate_name, principal)};
  const Principal& before = request.principal;
  const bool has_same_limits = principal.limits && before.limits
                                   ? *principal.limits == *before.limits
                                   : principal.limits == before.limits;
  standing.is_unchanged = !standing.refusal && has_same_limits && principal.name == before.name;
  return standing;
}

std::optional<Response> RequestGate::check_origin(const Request& request) const {
  const auto host = request.fields.get("Host");
  if (only_local_hosts_if_open_ && host && !authenticator_.has_tokens() && !is_local_host(*host)) {
    return refusal(421, "misdirected", "Not a host of this server",
                   "without tokens it answers to localhost only; set up tokens, or allow "
                   "anonymous callers from elsewhere",
                   request);
  }
  const auto origin = request.fields.get("Origin");
  if (!origin || changes_nothing(request.method) || is_allowed(*origin)) return std::nullopt;
  if (host && is_origin_of(scheme_, *host, *origin)) return std::nullopt;
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

std::optional<Response> RequestGate::check_scope(const Request& request, const Route& route,
                                                 const std::optional<std::string>& certificate_name,
                                                 Principal& principal) const {
  Credentials credentials{.authorization = request.fields.get("Authorization")};
  if (certificate_name) credentials.certificate_name = *certificate_name;
  auto checked = authenticator_.check(credentials, route.scope);
  if (auto* const known = std::get_if<Principal>(&checked)) {
    principal = std::move(*known);
    if (holds_limits(route, principal)) return std::nullopt;
    return refusal(403, "forbidden", "Not allowed",
                   "this token is limited to some stores, sources or topics, and this call is not",
                   request);
  }
  if (auto* forbidden = std::get_if<Forbidden>(&checked)) {
    principal = std::move(forbidden->principal);
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

/// Without tokens a browser's page could do whatever its user may. Browsers say which page sends,
/// and a page cannot send JSON elsewhere without asking first.
std::optional<Response> RequestGate::check_page(const Request& request, const Route& route) const {
  if (authenticator_.has_tokens() || route.scope == Scope::open) return std::nullopt;
  const auto origin = request.fields.get("Origin");
  if (origin && is_allowed(*origin)) return std::nullopt;
  const auto is = [&](std::string_view field, std::string_view value) {
    return equal_ignoring_case(request.fields.get(field).value_or(""), value);
  };
  const bool follows_link = changes_nothing(request.method) && is("Sec-Fetch-Mode", "navigate");
  if (is("Sec-Fetch-Site", "cross-site") && !follows_link) {
    return refusal(403, "forbidden", "Another origin",
                   "without tokens pages of other sites may not call; see cors_origins", request);
  }
  if (request.method == Method::post && !origin && is("Content-Type", "")) {
    return refusal(403, "forbidden", "A POST that any page could send",
                   "without tokens a POST needs a Content-Type: application/json", request);
  }
  return std::nullopt;
}

std::optional<Response> RequestGate::check_encoding(const Request& request) {
  if (changes_nothing(request.method)) return std::nullopt;
  for (const auto& [name, value] : request.fields) {
    if (!equal_ignoring_case(name, "Content-Encoding") || value.empty() ||
        equal_ignoring_case(value, "identity")) {
      continue;
    }
    Response response =
        refusal(415, "unsupported_media_type", "Unsupported content encoding",
                "bodies are taken as they are; send it without Content-Encoding", request);
    response.fields.add("Accept-Encoding", "identity");
    return response;
  }
  return std::nullopt;
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
