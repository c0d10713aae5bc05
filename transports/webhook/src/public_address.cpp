#include "oncebox/webhook/public_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "socket_address.hpp"

namespace oncebox::webhook {

namespace {

using Ipv4 = std::uint32_t;  // in the machine's own order of bytes
using Ipv6 = std::array<std::uint8_t, 16>;

constexpr Ipv4 ipv4(Ipv4 a, Ipv4 b, Ipv4 c, Ipv4 d) { return a << 24 | b << 16 | c << 8 | d; }

struct Ipv4Range {
  Ipv4 first;
  int prefix_bits;

  [[nodiscard]] constexpr bool contains(Ipv4 address) const {
    return (address ^ first) >> (32 - prefix_bits) == 0;
  }
};

// The registry of special-purpose addresses (RFC 6890), multicast, and what is left of class E.
constexpr Ipv4Range kNotPublicIpv4[] = {
    {ipv4(0, 0, 0, 0), 8},        // this network
    {ipv4(10, 0, 0, 0), 8},       // private
    {ipv4(100, 64, 0, 0), 10},    // behind the NAT of a carrier
    {ipv4(127, 0, 0, 0), 8},      // loopback
    {ipv4(169, 254, 0, 0), 16},   // link-local, and the metadata of clouds
    {ipv4(172, 16, 0, 0), 12},    // private
    {ipv4(192, 0, 0, 0), 24},     // protocols
    {ipv4(192, 0, 2, 0), 24},     // documentation
    {ipv4(192, 88, 99, 0), 24},   // relays of 6to4, given up
    {ipv4(192, 168, 0, 0), 16},   // private
    {ipv4(198, 18, 0, 0), 15},    // benchmarks
    {ipv4(198, 51, 100, 0), 24},  // documentation
    {ipv4(203, 0, 113, 0), 24},   // documentation
    {ipv4(224, 0, 0, 0), 4},      // multicast
    {ipv4(240, 0, 0, 0), 4},      // not assigned, and broadcast
};

bool is_public(Ipv4 address) noexcept {
  return std::none_of(std::begin(kNotPublicIpv4), std::end(kNotPublicIpv4),
                      [&](const Ipv4Range& range) { return range.contains(address); });
}

struct Ipv6Range {
  std::array<std::uint8_t, 12> first;
  std::size_t prefix_bits;

  [[nodiscard]] bool contains(const Ipv6& address) const {
    const std::size_t whole = prefix_bits / 8;
    const std::size_t rest = prefix_bits % 8;
    if (!std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(whole),
                    address.begin())) {
      return false;
    }
    return rest == 0 || (first[whole] ^ address[whole]) >> (8 - rest) == 0;
  }
};

constexpr Ipv6Range kGlobalUnicast{{0x20}, 3};           // all that was ever assigned
constexpr Ipv6Range kProtocols{{0x20, 0x01, 0x00}, 23};  // Teredo, benchmarks, ORCHID
constexpr Ipv6Range kDocumentation{{0x20, 0x01, 0x0d, 0xb8}, 32};
constexpr Ipv6Range kMoreDocumentation{{0x3f, 0xff, 0x00}, 20};
constexpr Ipv6Range kSixToFour{{0x20, 0x02}, 16};
constexpr Ipv6Range kMapped{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
constexpr Ipv6Range kNat64{{0x00, 0x64, 0xff, 0x9b}, 96};

/// The IPv4 address that begins at this byte.
Ipv4 embedded(const Ipv6& address, std::size_t at) {
  return ipv4(address[at], address[at + 1], address[at + 2], address[at + 3]);
}

bool is_public(const Ipv6& address) noexcept {
  if (kMapped.contains(address) || kNat64.contains(address))
    return is_public(embedded(address, 12));
  if (kSixToFour.contains(address)) return is_public(embedded(address, 2));
  return kGlobalUnicast.contains(address) && !kProtocols.contains(address) &&
         !kDocumentation.contains(address) && !kMoreDocumentation.contains(address);
}

bool is_public(const in_addr& address) noexcept { return is_public(ntohl(address.s_addr)); }

bool is_public(const in6_addr& address) noexcept {
  Ipv6 bytes;
  std::memcpy(bytes.data(), &address, bytes.size());
  return is_public(bytes);
}

}  // namespace

bool is_public_address(std::string_view address) noexcept {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.size() >= sizeof text || address.find('\0') != address.npos) return false;
  std::copy(address.begin(), address.end(), text);
  in_addr ipv4_address{};
  if (inet_pton(AF_INET, text, &ipv4_address) == 1) return is_public(ipv4_address);
  in6_addr ipv6_address{};
  return inet_pton(AF_INET6, text, &ipv6_address) == 1 && is_public(ipv6_address);
}

bool is_public_address(const sockaddr& address) noexcept {
  if (address.sa_family == AF_INET) {
    sockaddr_in copy;
    std::memcpy(&copy, &address, sizeof copy);
    return is_public(copy.sin_addr);
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 copy;
  std::memcpy(&copy, &address, sizeof copy);
  return is_public(copy.sin6_addr);
}

}  // namespace oncebox::webhook
