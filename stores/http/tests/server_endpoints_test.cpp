#include "oncebox/http/server_endpoints.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "oncebox/testing/scripted_server.hpp"

namespace oncebox::http {
namespace {

using testing::Reaction;
using testing::ReceivedRequest;
using testing::ScriptedServer;

TEST(ServerEndpoints, GetAgainWhatTheyMissed) {
  const ScriptedServer server([](const ReceivedRequest&) {
    return Reaction{.body = R"({"count":7,"underWay":1,"notWanted":2,"dryRun":false})"};
  });
  const ServerResent expected{.resent = 7, .under_way = 1, .not_wanted = 2};
  EXPECT_EQ(resend_to_endpoint({.url = server.url(), .store = "eu"}, "crm",
                               {.failed = true, .per_second = 50, .reason = "it is back"}),
            expected);
  const ReceivedRequest request = server.requests().at(0);
  EXPECT_EQ(request.target, "/v1/stores/eu/endpoints/crm/resend");
  EXPECT_EQ(request.body, R"({"failed":true,"perSecond":50,"reason":"it is back"})");
}

TEST(ServerEndpoints, AResendWhoseAnswerIsLostMayHaveHappened) {
  const ScriptedServer server(
      [](const ReceivedRequest&) { return Reaction{.kind = Reaction::Kind::hang_up}; });
  expect_error(ErrorCode::outcome_unknown, [&] {
    resend_to_endpoint({.url = server.url()}, "crm", {.key = MessageKey{"shop", "1"}});
  });
  EXPECT_EQ(server.requests().size(), 1U) << "it is not repeated: some would come twice";
}

}  // namespace
}  // namespace oncebox::http
