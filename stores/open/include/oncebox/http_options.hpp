#pragma once

#include <string_view>

#include "oncebox/http/http_store.hpp"
#include "oncebox/open_store.hpp"

namespace oncebox {

/// What `open_store` would open an HTTP store with, for those who ask the service itself. Throws
/// `unsupported` for the URL of another kind of store.
[[nodiscard]] http::Options read_http_options(std::string_view url,
                                              const StoreCredentials& credentials = {});

}  // namespace oncebox
