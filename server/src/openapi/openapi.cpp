#include "openapi/openapi.hpp"

#include <string>
#include <utility>

namespace oncebox::server {

namespace {

// The page runs its own script and reads its own document, and nothing else.
constexpr const char* kOpenapiPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void add_file(Router& router, std::string path, std::string content_type, std::string_view bytes) {
  router.add(
      {.method = Method::get,
       .pattern = std::move(path),
       .scope = Scope::open,
       .handler = [content_type = std::move(content_type), bytes](const ExchangePtr& exchange) {
         Response response{.content_type = content_type, .body = std::string(bytes)};
         response.fields.add("Content-Security-Policy", kOpenapiPagePolicy);
         exchange->send(std::move(response));
       }});
}

}  // namespace

void add_openapi_routes(Router& router) {
  add_file(router, "/openapi.json", "application/json", embedded::openapi_json());
  add_file(router, "/docs", "text/html; charset=utf-8", embedded::docs_html());
  add_file(router, "/docs/app.js", "text/javascript; charset=utf-8", embedded::docs_js());
  add_file(router, "/docs/style.css", "text/css; charset=utf-8", embedded::docs_css());
}

}  // namespace oncebox::server
