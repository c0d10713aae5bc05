#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// Hosts and ports, as they stand in addresses, in the field Host and in origins.
namespace oncebox::detail {

struct Authority {
  std::string_view host = {};  ///< an IPv6 address with its brackets
  std::optional<std::uint16_t> port = {};
};

/// Reads `host`, `host:port` or `[address]:port` of ASCII characters, without a user; an empty port
/// counts as none. Nothing for any other text, for an empty host, and for a port that cannot be.
[[nodiscard]] std::optional<Authority> read_authority(std::string_view text) noexcept;

/// Whether the port behind the host, if there is one, is 1 to 65535. Takes any host.
[[nodiscard]] bool has_possible_port(std::string_view host_and_port) noexcept;

/// What stands between the `//` of an address and its path, without the user; empty without `//`.
[[nodiscard]] std::string_view authority_of(std::string_view url) noexcept;

/// A name or an address of this machine that no other one can have: localhost, a name below it, or
/// a loopback address (IPv6 with its brackets).
[[nodiscard]] bool is_loopback_host(std::string_view host) noexcept;

}  // namespace oncebox::detail
