#include "oncebox/internal/authority.hpp"

#include <gtest/gtest.h>

namespace oncebox::detail {
namespace {

TEST(Authority, IsAHostAndPerhapsAPort) {
  const auto plain = read_authority("shop.example");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "shop.example");
  EXPECT_EQ(plain->port, std::nullopt);
  EXPECT_EQ(read_authority("shop.example:8443")->port, 8443);
  EXPECT_EQ(read_authority("shop.example:")->port, std::nullopt);
  EXPECT_EQ(read_authority("[::1]:80")->host, "[::1]");
  EXPECT_EQ(read_authority("[::1]:80")->port, 80);
  for (const char* text :
       {"", ":80", "[::1", "[]", "[::1]evil.com", "[::1]evil.com:80", "[evil]:1", "a:b", "a:0",
        "a:65536", "a:80:80", "a:+80", "::1", "me@host", "a b", "a/b", "a]", "\xc3\xbc.example"}) {
    EXPECT_FALSE(read_authority(text)) << text;
  }
}

TEST(Authority, IsCutOutOfAnAddress) {
  EXPECT_EQ(authority_of("https://shop.example:8443/a//b"), "shop.example:8443");
  EXPECT_EQ(authority_of("https://me:secret@shop.example?a@b"), "shop.example");
  EXPECT_EQ(authority_of("memory:"), "");
}

TEST(Authority, OnlyNamesOfThisMachineAreLoopback) {
  for (const char* host :
       {"localhost", "LocalHost", "a.localhost", "127.0.0.1", "127.1", "[::1]"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"", "evillocalhost", ".localhost", "localhost.evil.com", "127.evil.com",
                           "128.0.0.1", "[::2]", "[::1]evil.com"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

}  // namespace
}  // namespace oncebox::detail
