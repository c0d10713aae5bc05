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

// The keys and the signature are those of the Go library's tests: 32 bytes, the seed alone.
constexpr const char* kSecretKey = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
// Of Svix, whose secret keys have the public key behind the seed.
constexpr const char* kLongSecretKey =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
constexpr const char* kLongPublicKey = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";

TEST(WebhookSigner, SignsWithEd25519AsOthersDo) {
  EXPECT_EQ(
      WebhookSigner({kSecretKey})
          .sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", R"({"test": 2432232314})"),
      "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8"
      "Ag==");
  // The signature that stands as an example in the specification.
  EXPECT_EQ(
      WebhookSigner({kLongSecretKey})
          .sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", R"({"test": 2432232314})"),
      "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TB"
      "Ag==");
}

TEST(WebhookSigner, SecretsOfBothKindsSignTogether) {
  const std::string both = WebhookSigner({kSecret, kSecretKey}).sign("a", "1", "{}");
  EXPECT_EQ(both, WebhookSigner({kSecret}).sign("a", "1", "{}") + " " +
                      WebhookSigner({kSecretKey}).sign("a", "1", "{}"));
}

TEST(WebhookSigner, TellsThePublicKeyOfASecretKeyAlone) {
  EXPECT_EQ(public_key_of(kLongSecretKey), kLongPublicKey);
  EXPECT_EQ(decode_public_key(public_key_of(kSecretKey)).size(), 32U);
  for (const char* const other :
       {kSecret, kLongPublicKey, "whsk_", "whsk_s3cret!", "whsk_c2hvcnQ="}) {
    const std::string text =
        expect_error(ErrorCode::invalid_argument, [&] { (void)public_key_of(other); });
    EXPECT_EQ(text.find("s3cret"), std::string::npos);
  }
}

TEST(WebhookSigner, MakesTheFieldLinesOfARequest) {
  const WebhookSigner signer({kSecret});
  const FieldLines expected{{"webhook-id", "a"},
                            {"webhook-timestamp", "1614265330"},
                            {"webhook-signature", signer.sign("a", "1614265330", "{}")}};
  const TimePoint now{std::chrono::milliseconds{1'614'265'330'999}};
  EXPECT_EQ(signer.fields("a", now, "{}"), expected);
}

TEST(WebhookSigner, RefusesWhatIsNoSecretWithoutQuotingIt) {
  expect_error(ErrorCode::invalid_argument, [] { WebhookSigner({}); });
  const std::string text =
      expect_error(ErrorCode::invalid_argument, [] { WebhookSigner({kSecret, "whsec_s3cret!"}); });
  EXPECT_EQ(text.find("s3cret"), std::string::npos);
  // A key that anybody may have signs nothing.
  expect_error(ErrorCode::invalid_argument, [] { WebhookSigner({kLongPublicKey}); });
}

}  // namespace
}  // namespace oncebox::webhook
