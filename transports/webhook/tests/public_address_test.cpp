#include "oncebox/webhook/public_address.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "socket_address.hpp"

namespace oncebox::webhook {
namespace {

TEST(PublicAddress, AddressesOfTheInternetArePublic) {
  for (const char* const address : {"1.1.1.1",
                                    "8.8.8.8",
                                    "9.255.255.255",
                                    "11.0.0.0",
                                    "100.63.255.255",
                                    "100.128.0.0",
                                    "126.255.255.255",
                                    "128.0.0.0",
                                    "169.253.255.255",
                                    "169.255.0.0",
                                    "172.15.255.255",
                                    "172.32.0.0",
                                    "192.0.1.0",
                                    "192.0.3.0",
                                    "192.167.255.255",
                                    "192.169.0.0",
                                    "198.17.255.255",
                                    "198.20.0.0",
                                    "198.51.101.0",
                                    "203.0.114.0",
                                    "223.255.255.255",
                                    "2606:4700:4700::1111",
                                    "2a00:1450:4001:81c::200e",
                                    "2001:200::1",
                                    "3fff:1000::1",
                                    "2002:808:808::1",
                                    "::ffff:8.8.8.8",
                                    "64:ff9b::8.8.8.8"}) {
    EXPECT_TRUE(is_public_address(address)) << address;
  }
}

TEST(PublicAddress, AddressesOfThisMachineAndOfPrivateNetworksAreNot) {
  for (const char* const address : {"0.0.0.0",
                                    "0.1.2.3",
                                    "10.0.0.1",
                                    "10.255.255.255",
                                    "100.64.0.0",
                                    "100.127.255.255",
                                    "127.0.0.1",
                                    "127.255.255.255",
                                    "169.254.169.254",
                                    "172.16.0.0",
                                    "172.31.255.255",
                                    "192.168.0.1",
                                    "192.168.255.255",
                                    "::",
                                    "::1",
                                    "fc00::1",
                                    "fdff::1",
                                    "fe80::1",
                                    "febf::1",
                                    "fec0::1"}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
}

TEST(PublicAddress, AddressesForGroupsTestsAndPagesAreNot) {
  for (const char* const address :
       {"192.0.0.1",        "192.0.2.1",   "192.88.99.1", "198.18.0.0",        "198.19.255.255",
        "198.51.100.1",     "203.0.113.1", "224.0.0.1",   "239.255.255.255",   "240.0.0.1",
        "255.255.255.255",  "ff02::1",     "ff0e::1",     "2001::1",           "2001:2::1",
        "2001:1ff:ffff::1", "2001:db8::1", "3fff::1",     "3fff:fff::1",       "100::1",
        "5f00::1",          "4000::1",     "::8.8.8.8",   "64:ff9b:1::8.8.8.8"}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
}

TEST(PublicAddress, Ipv4AddressesInDisguiseAreNot) {
  for (const char* const address :
       {"::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
        "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1",
        "2002:a00:1::1", "2002:c0a8:1::1", "2002:a9fe:a9fe::1"}) {
    EXPECT_FALSE(is_public_address(address)) << address;
  }
}

TEST(PublicAddress, OtherTextIsNot) {
  for (const std::string_view text :
       {std::string_view("localhost"), std::string_view(""), std::string_view("8.8.8.8 "),
        std::string_view("8.8.8.8:80"), std::string_view("[2606:4700::1]"),
        std::string_view("8.8.8"), std::string_view("08.8.8.8"), std::string_view("8.8.8.8\0", 8),
        std::string_view("2606:4700:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000")}) {
    EXPECT_FALSE(is_public_address(text)) << text;
  }
}

TEST(PublicAddress, SocketAddressesAreReadAlike) {
  const auto is_public = [](const auto& address) {
    return is_public_address(reinterpret_cast<const sockaddr&>(address));
  };
  sockaddr_in ipv4{.sin_family = AF_INET};
  inet_pton(AF_INET, "8.8.8.8", &ipv4.sin_addr);
  EXPECT_TRUE(is_public(ipv4));
  inet_pton(AF_INET, "10.1.2.3", &ipv4.sin_addr);
  EXPECT_FALSE(is_public(ipv4));
  sockaddr_in6 ipv6{.sin6_family = AF_INET6};
  inet_pton(AF_INET6, "2606:4700:4700::1111", &ipv6.sin6_addr);
  EXPECT_TRUE(is_public(ipv6));
  inet_pton(AF_INET6, "::ffff:10.1.2.3", &ipv6.sin6_addr);
  EXPECT_FALSE(is_public(ipv6));
  const sockaddr_un local{.sun_family = AF_UNIX};
  EXPECT_FALSE(is_public(local));
}

}  // namespace
}  // namespace oncebox::webhook
