#pragma once

#include <string>

#include "server_folder.hpp"

namespace oncebox::testing {

/// The file in the folder of the data that holds the certificate of the authority.
inline constexpr const char* kCaCertificate = "ca.crt";

/// Makes an authority and lets it sign a certificate for localhost and 127.0.0.1: `ca.crt`,
/// `server.crt` and `server.key`, in the folder of the data, where the server looks for them. They
/// are good for a day, and nobody has the authority's key after that.
void make_server_certificate(const ServerFolder& folder, const std::string& data_folder);

}  // namespace oncebox::testing
