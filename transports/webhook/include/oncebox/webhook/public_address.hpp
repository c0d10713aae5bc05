#pragma once

#include <string_view>

namespace oncebox::webhook {

/// Whether an IPv4 or IPv6 address, in text and without brackets, is one of the public internet.
/// False for those of this machine, of private and shared networks, links and groups, for what is
/// kept for tests, documentation and protocols, for all that is not assigned, and for IPv6
/// addresses that stand for such an IPv4 one (mapped, NAT64, 6to4). False for any other text, too.
[[nodiscard]] bool is_public_address(std::string_view address) noexcept;

}  // namespace oncebox::webhook
