// Names that resolve as a test says: libcurl calls the function of this program.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "answers.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/webhook/webhook_client.hpp"

namespace oncebox::webhook {
namespace {

struct Resolver {
  std::size_t asked = 0;
  std::size_t answered = 0;
  bool hangs = true;
};

/// For `hangs.test`.
Watched<Resolver>& resolver() {
  static Watched<Resolver> instance;
  return instance;
}

int resolve_by_the_system(const char* name, const char* service, const addrinfo* hints,
                          addrinfo** result) {
  const auto system = reinterpret_cast<decltype(&::getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return system(name, service, hints, result);
}

int resolve(const char* name, const char* service, const addrinfo* hints, addrinfo** result) {
  const std::string_view asked = name == nullptr ? "" : name;
  if (asked == "looks-public.test") {
    return resolve_by_the_system("127.0.0.1", service, hints, result);
  }
  if (asked != "hangs.test") return resolve_by_the_system(name, service, hints, result);
  resolver().change([](Resolver& state) { ++state.asked; });
  (void)resolver().wait([](const Resolver& state) { return !state.hangs; });
  resolver().change([](Resolver& state) { ++state.answered; });
  return EAI_AGAIN;
}

using namespace std::chrono_literals;
using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;

class NameResolution : public ::testing::Test {
 protected:
  [[nodiscard]] std::string at(const std::string& host) const {
    const std::string url = server_.url();
    return "http://" + host + url.substr(url.rfind(':'));
  }

  testing::FakeClock clock_;
  ScriptedServer server_{[](const ReceivedRequest&) { return Reaction{}; }};
};

TEST_F(NameResolution, NameThatLooksPublicIsRefusedForItsAddress) {
  WebhookClient client({.connect_timeout = 60s, .timeout = 60s}, clock_);
  const WebhookAnswer answer = client.post({.url = at("looks-public.test")});
  EXPECT_EQ(answer.status, 0);
  EXPECT_NE(answer.failure.find("allow_private = true"), std::string::npos) << answer.failure;
  EXPECT_EQ(server_.connections(), 0U);
  EXPECT_EQ(client.post({.url = at("looks-public.test"), .allow_private = true}).status, 200);
}

TEST_F(NameResolution, NameThatIsNotResolvedInTimeHoldsUpNoOther) {
  Answers answers;
  WebhookClient client({.connect_timeout = 60s, .timeout = 60s}, clock_);
  client.send({.url = "http://hangs.test/", .timeout = 50ms}, answers.record("slow"));
  // It ends, and the thread goes on, while the resolver still hangs.
  EXPECT_EQ(answers.of("slow").status, 0);
  client.send({.url = server_.url(), .allow_private = true}, answers.record("quick"));
  EXPECT_EQ(answers.of("quick").status, 200);
  EXPECT_EQ(resolver().get().answered, 0U);
  resolver().change([](Resolver& state) { state.hangs = false; });
  EXPECT_TRUE(resolver().wait([](const Resolver& state) { return state.answered == state.asked; }));
  EXPECT_EQ(resolver().get().asked, 1U);
}

}  // namespace
}  // namespace oncebox::webhook

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  return oncebox::webhook::resolve(name, service, hints, result);
}
