#pragma once

#include <memory>

#include "oncebox/server/server_options.hpp"

namespace boost::asio::ssl {
class context;
}

namespace oncebox::server {

/// TLS 1.2 and later, with the certificate and key of the options. Throws `invalid_argument`,
/// naming the option, for files that cannot be read or do not fit together.
[[nodiscard]] std::shared_ptr<boost::asio::ssl::context> load_tls_context(
    const TlsOptions& options);

}  // namespace oncebox::server
