// Requests that may not go to this machine or to a private network, and those that may.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "environment_variable.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_client.hpp"

namespace oncebox::webhook {
namespace {

using namespace std::chrono_literals;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;

class SafeAddress : public ::testing::Test {
 protected:
  SafeAddress() {
    for (const char* const name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                   "ALL_PROXY", "no_proxy", "NO_PROXY"}) {
      variables_.push_back(std::make_unique<EnvironmentVariable>(name, ""));
    }
  }
  /// At the server, by another name.
  [[nodiscard]] std::string at(const std::string& host) const {
    const std::string url = server_.url();
    return "http://" + host + url.substr(url.rfind(':')) + "/hook-s3cret";
  }
  [[nodiscard]] WebhookAnswer post(const std::string& url, bool allow_private = false,
                                   bool proxy_checks_addresses = false) {
    WebhookClient client(
        {.connect_timeout = 60s, .timeout = 60s, .proxy_checks_addresses = proxy_checks_addresses},
        clock_);
    return client.post({.url = url, .body = "s3cret", .allow_private = allow_private});
  }
  static void expect_refused(const WebhookAnswer& answer) {
    EXPECT_EQ(answer.status, 0);
    EXPECT_EQ(answer.acceptance(), WebhookAcceptance::may_pass);
    EXPECT_NE(answer.failure.find("allow_private = true"), std::string::npos) << answer.failure;
    for (const char* const hidden : {"127.0.0.1", "localhost", "s3cret"}) {
      EXPECT_EQ(answer.failure.find(hidden), std::string::npos) << answer.failure;
    }
  }

  std::vector<std::unique_ptr<EnvironmentVariable>> variables_;
  testing::FakeClock clock_;
  ScriptedServer server_{[](const ReceivedRequest&) { return Reaction{}; }};
};

TEST_F(SafeAddress, AddressOfThisMachineIsRefusedUnlessItIsAllowed) {
  expect_refused(post(at("127.0.0.1")));
  EXPECT_EQ(server_.connections(), 0U);
  EXPECT_EQ(post(at("127.0.0.1"), true).status, 200);
}

TEST_F(SafeAddress, NameIsJudgedByWhatItResolvesTo) {
  expect_refused(post(at("localhost")));
  EXPECT_EQ(server_.connections(), 0U);
  EXPECT_EQ(post(at("localhost"), true).status, 200);
}

TEST_F(SafeAddress, AddressInDisguiseIsRefused) {
  for (const char* const host :
       {"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0", "[::1]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "user:password@127.0.0.1", "LOCALHOST",
        "127.0.0.1.", "%6c%6f%63%61%6c%68%6f%73%74"}) {
    const WebhookAnswer answer = post(at(host));
    EXPECT_EQ(answer.status, 0) << host;
  }
  EXPECT_EQ(server_.connections(), 0U);
}

TEST_F(SafeAddress, PrivateNetworksAreNotEvenAskedForAConnection) {
  for (const char* const url :
       {"http://10.255.255.1/", "https://192.168.255.1/", "http://169.254.169.254/latest/",
        "http://[fe80::1]/", "http://[fd00::1]/", "http://100.64.0.1/"}) {
    // Nobody answers there, so that a connection would take until the timeout.
    expect_refused(post(url));
  }
}

TEST_F(SafeAddress, ConnectionThatWasKeptIsCheckedAgain) {
  WebhookClient client({.connect_timeout = 60s, .timeout = 60s}, clock_);
  for (const char* const host : {"127.0.0.1", "localhost"}) {
    const std::string url = at(host);
    EXPECT_EQ(client.post({.url = url, .allow_private = true}).status, 200);
    const std::size_t requests = server_.requests().size();
    expect_refused(client.post({.url = url}));
    EXPECT_EQ(server_.requests().size(), requests);
    EXPECT_EQ(client.post({.url = url, .allow_private = true}).status, 200);
  }
}

TEST_F(SafeAddress, RedirectionLeadsNowhere) {
  ScriptedServer redirects([&](const ReceivedRequest&) {
    return Reaction{.status = 302, .fields = {{"Location", server_.url()}}};
  });
  EXPECT_EQ(post(redirects.url(), true).status, 302);
  EXPECT_EQ(server_.connections(), 0U);
}

TEST_F(SafeAddress, ProxyThatNobodyVouchesForIsNotUsed) {
  const EnvironmentVariable proxy("http_proxy", server_.url());
  const WebhookAnswer answer = post("http://receiver.example/hook-s3cret");
  expect_refused(answer);
  EXPECT_NE(answer.failure.find("proxy_checks_addresses = true"), std::string::npos);
  EXPECT_EQ(server_.connections(), 0U);
}

TEST_F(SafeAddress, ProxyConnectsWhereAnyAddressIsAllowed) {
  const EnvironmentVariable proxy("http_proxy", server_.url());
  EXPECT_EQ(post("http://receiver.example/hook", true).status, 200);
  EXPECT_EQ(server_.requests().at(0).target, "http://receiver.example/hook");
}

TEST_F(SafeAddress, ProxyThatChecksAddressesConnectsForAll) {
  const EnvironmentVariable proxy("http_proxy", server_.url());
  EXPECT_EQ(post("http://receiver.example/hook", false, true).status, 200);
  EXPECT_EQ(server_.requests().at(0).target, "http://receiver.example/hook");
  for (const char* const host : {"127.0.0.1", "2130706433", "localhost", "10.0.0.1", "[::1]"}) {
    expect_refused(post(at(host), false, true));
  }
  EXPECT_EQ(server_.requests().size(), 1U);
}

TEST_F(SafeAddress, HostWithoutAProxyIsCheckedHere) {
  const EnvironmentVariable proxy("all_proxy", server_.url());
  const EnvironmentVariable none("no_proxy", "other.example, .localhost,127.0.0.1");
  expect_refused(post(at("127.0.0.1"), false, true));
  expect_refused(post(at("localhost"), false, true));
  EXPECT_EQ(server_.connections(), 0U);
  EXPECT_EQ(post("http://notother.example/hook", false, true).status, 200);
}

}  // namespace
}  // namespace oncebox::webhook
