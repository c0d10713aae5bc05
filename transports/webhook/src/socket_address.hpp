#pragma once

#include <sys/socket.h>

namespace oncebox::webhook {

/// As `is_public_address`, of an address that is about to be connected to; false for whatever is
/// neither IPv4 nor IPv6.
[[nodiscard]] bool is_public_address(const sockaddr& address) noexcept;

}  // namespace oncebox::webhook
