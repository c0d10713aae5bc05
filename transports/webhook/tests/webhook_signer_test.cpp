#include "oncebox/webhook/webhook_signer.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox::webhook {
namespace {

constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
// printf second-secret | base64
constexpr const char* kNextSecret = "whsec_c2Vjb25kLXNlY3JldA==";

TEST(WebhookSigner, SignsAsTheSpecificationDoes) {
  // The example of standardwebhooks.com.
  EXPECT_EQ(WebhookSigner({kSecret}).sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
                                          R"({"test": 2432232314})"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(WebhookSigner, SignsWithEachSecret) {
  const std::string both = WebhookSigner({kSecret, kNextSecret}).sign("a", "1", "{}");
  EXPECT_EQ(both, WebhookSigner({kSecret}).sign("a", "1", "{}") + " " +
                      WebhookSigner({kNextSecret}).sign("a", "1", "{}"));
}

TEST(WebhookSigner, RefusesWhatIsNoSecretWithoutQuotingIt) {
  expect_error(ErrorCode::invalid_argument, [] { WebhookSigner({}); });
  const std::string text =
      expect_error(ErrorCode::invalid_argument, [] { WebhookSigner({kSecret, "whsec_s3cret!"}); });
  EXPECT_EQ(text.find("s3cret"), std::string::npos);
}

}  // namespace
}  // namespace oncebox::webhook
