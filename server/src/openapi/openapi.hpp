#pragma once

#include <string_view>

#include "http/router.hpp"

namespace oncebox::server {

/// `GET /openapi.json`, the description of the whole service (OpenAPI 3.1), and `GET /docs`, a page
/// that shows it; open to everybody. All of it is part of the program.
void add_openapi_routes(Router& router);

/// The files, as they were when the program was built.
namespace embedded {
[[nodiscard]] std::string_view openapi_json() noexcept;
[[nodiscard]] std::string_view docs_html() noexcept;
[[nodiscard]] std::string_view docs_js() noexcept;
[[nodiscard]] std::string_view docs_css() noexcept;
}  // namespace embedded

}  // namespace oncebox::server
