#include "webhooks/webhook_signature.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oncebox/error.hpp"

namespace oncebox::server {

void PrintTo(SignatureCheck check, std::ostream* out) { *out << explanation(check); }

namespace {

using namespace std::chrono_literals;

constexpr TimePoint at(std::int64_t seconds) { return TimePoint(std::chrono::seconds(seconds)); }

Request request(std::string body, std::initializer_list<Fields::Entry> fields) {
  Request made{.method = Method::post, .path = "/v1/webhooks/test", .body = std::move(body)};
  for (const auto& [name, value] : fields) made.fields.add(name, value);
  return made;
}

WebhookOptions options(WebhookScheme scheme, std::vector<std::string> secrets) {
  return {.name = "test", .scheme = scheme, .secrets = std::move(secrets)};
}

/// What the error says when these options are refused; empty when they are not.
std::string refusal(const WebhookOptions& refused) {
  try {
    const WebhookSignature signature(refused);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// GitHub: the values of its page "Validating webhook deliveries" --------------------------------

const std::string kGithubSignature =
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

SignatureCheck check_github(const std::string& body, const std::string& signature,
                            std::vector<std::string> secrets = {"It's a Secret to Everybody"}) {
  return WebhookSignature(options(WebhookScheme::github, std::move(secrets)))
      .check(request(body, {{"x-hub-signature-256", signature}}), at(0));
}

TEST(GithubSignature, TheDocumentedExampleIsGood) {
  EXPECT_EQ(check_github("Hello, World!", kGithubSignature), SignatureCheck::good);
}

TEST(GithubSignature, AnotherBodyOrSecretIsWrong) {
  EXPECT_EQ(check_github("Hello, World?", kGithubSignature), SignatureCheck::wrong);
  EXPECT_EQ(check_github("Hello, World!", kGithubSignature, {"guess"}), SignatureCheck::wrong);
}

TEST(GithubSignature, EachOfSeveralSecretsIsValid) {
  const std::string old_secret = "It's a Secret to Everybody";
  EXPECT_EQ(check_github("Hello, World!", kGithubSignature, {"new", old_secret}),
            SignatureCheck::good);
  EXPECT_EQ(check_github("Hello, World!", kGithubSignature, {old_secret, "new"}),
            SignatureCheck::good);
}

TEST(GithubSignature, OtherFormsAreMalformed) {
  for (const char* const signature :
       {"", "sha256=", "sha1=757107ea", "757107ea", "sha256=75710", "sha256=xx7107ea",
        "sha256= 57107ea", "sha256=-57107ea", "sha256=+57107ea"}) {
    EXPECT_EQ(check_github("Hello, World!", signature), SignatureCheck::malformed) << signature;
  }
}

TEST(GithubSignature, PartOfASignatureIsWrong) {
  EXPECT_EQ(check_github("Hello, World!", kGithubSignature.substr(0, 40 + 7)),
            SignatureCheck::wrong);
  EXPECT_EQ(check_github("Hello, World!", kGithubSignature + "00"), SignatureCheck::wrong);
}

TEST(GithubSignature, NoHeaderIsMissing) {
  const WebhookSignature signature(options(WebhookScheme::github, {"secret"}));
  EXPECT_EQ(signature.check(request("x", {}), at(0)), SignatureCheck::missing);
}

// Standard Webhooks: the values of the examples of its libraries ---------------------------------

const std::string kStandardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const std::string kStandardId = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const std::string kStandardBody = R"({"test": 2432232314})";
const std::string kStandardSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
constexpr std::int64_t kStandardTime = 1614265330;

struct StandardCall {
  std::string id = kStandardId;
  std::string time = std::to_string(kStandardTime);
  std::string signature = kStandardSignature;
  std::string body = kStandardBody;
  std::vector<std::string> secrets = {kStandardSecret};
  std::int64_t now = kStandardTime;
};

SignatureCheck check_standard(const StandardCall& call) {
  return WebhookSignature(options(WebhookScheme::standard_webhooks, call.secrets))
      .check(request(call.body, {{"Webhook-Id", call.id},
                                 {"Webhook-Timestamp", call.time},
                                 {"Webhook-Signature", call.signature}}),
             at(call.now));
}

TEST(StandardWebhooksSignature, TheDocumentedExampleIsGood) {
  EXPECT_EQ(check_standard({}), SignatureCheck::good);
}

TEST(StandardWebhooksSignature, TheSecretWorksWithoutItsPrefix) {
  EXPECT_EQ(check_standard({.secrets = {kStandardSecret.substr(6)}}), SignatureCheck::good);
}

TEST(StandardWebhooksSignature, OneGoodSignatureAmongSeveralIsEnough) {
  const std::string wrong = "v1,AAAASsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OEE=";
  EXPECT_EQ(check_standard({.signature = wrong + " v1a,xyz " + kStandardSignature}),
            SignatureCheck::good);
  EXPECT_EQ(check_standard({.signature = wrong + " " + wrong}), SignatureCheck::wrong);
}

TEST(StandardWebhooksSignature, IdTimeAndBodyAreAllSigned) {
  EXPECT_EQ(check_standard({.id = "msg_other"}), SignatureCheck::wrong);
  EXPECT_EQ(check_standard({.time = std::to_string(kStandardTime + 1)}), SignatureCheck::wrong);
  EXPECT_EQ(check_standard({.body = "{}"}), SignatureCheck::wrong);
}

TEST(StandardWebhooksSignature, TheBorderBetweenIdAndTimeCannotBeMoved) {
  EXPECT_EQ(check_standard({.id = kStandardId + "." + std::to_string(kStandardTime), .time = "1"}),
            SignatureCheck::malformed);
}

TEST(StandardWebhooksSignature, TimesBeyondTheToleranceAreUntimely) {
  EXPECT_EQ(check_standard({.now = kStandardTime + 300}), SignatureCheck::good);
  EXPECT_EQ(check_standard({.now = kStandardTime + 301}), SignatureCheck::untimely);
  EXPECT_EQ(check_standard({.now = kStandardTime - 300}), SignatureCheck::good);
  EXPECT_EQ(check_standard({.now = kStandardTime - 301}), SignatureCheck::untimely);
}

TEST(StandardWebhooksSignature, OddTimesAreMalformed) {
  for (const char* const time : {"", "-1614265330", "+1614265330", "1614265330.0", "0x10",
                                 "9999999999999", "18446744073709551616", " 1614265330"}) {
    EXPECT_EQ(check_standard({.time = time}), SignatureCheck::malformed) << time;
  }
}

TEST(StandardWebhooksSignature, EveryHeaderIsNeeded) {
  const WebhookSignature signature(options(WebhookScheme::standard_webhooks, {kStandardSecret}));
  EXPECT_EQ(signature.check(request(kStandardBody, {{"webhook-id", kStandardId},
                                                    {"webhook-signature", kStandardSignature}}),
                            at(kStandardTime)),
            SignatureCheck::missing);
}

// Svix's: the signature stands as an example in the specification.
const std::string kStandardPublicKey = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
const std::string kStandardSecretKey =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
const std::string kStandardEd25519 =
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";

TEST(StandardWebhooksSignature, APublicKeyChecksEd25519) {
  const StandardCall good{.signature = kStandardEd25519, .secrets = {kStandardPublicKey}};
  EXPECT_EQ(check_standard(good), SignatureCheck::good);
  StandardCall bad = good;
  bad.body = "{}";
  EXPECT_EQ(check_standard(bad), SignatureCheck::wrong);
  bad = good;
  bad.id = "msg_other";
  EXPECT_EQ(check_standard(bad), SignatureCheck::wrong);
  bad = good;
  bad.now += 301;
  EXPECT_EQ(check_standard(bad), SignatureCheck::untimely);
  bad = good;
  bad.signature = "v1a,AAAA v1a,!";
  EXPECT_EQ(check_standard(bad), SignatureCheck::wrong);
  bad.signature = "v1a,!";
  EXPECT_EQ(check_standard(bad), SignatureCheck::malformed);
}

TEST(StandardWebhooksSignature, KeysOfBothKindsAreValidBesideEachOther) {
  const std::vector<std::string> both = {kStandardPublicKey, kStandardSecret};
  for (const std::string& signature :
       {kStandardSignature, kStandardEd25519, kStandardEd25519 + " " + kStandardSignature}) {
    EXPECT_EQ(check_standard({.signature = signature, .secrets = both}), SignatureCheck::good);
  }
}

TEST(StandardWebhooksSignature, OneKindDoesNotStandForTheOther) {
  EXPECT_EQ(check_standard({.signature = kStandardEd25519}), SignatureCheck::wrong);
  EXPECT_EQ(check_standard({.secrets = {kStandardPublicKey}}), SignatureCheck::wrong);
  // A public key is known to all: it must not be the key of an HMAC.
  EXPECT_EQ(check_standard(
                {.signature = "v1," + kStandardEd25519.substr(4), .secrets = {kStandardPublicKey}}),
            SignatureCheck::wrong);
}

TEST(StandardWebhooksSignature, ManySignaturesAreNotAllChecked) {
  const std::string other = "v1a," + std::string(86, 'A') + "== ";
  std::string many;
  for (int i = 0; i < 8; ++i) many += other;
  EXPECT_EQ(check_standard({.signature = many.substr(other.size()) + kStandardEd25519,
                            .secrets = {kStandardPublicKey}}),
            SignatureCheck::good);
  EXPECT_EQ(check_standard({.signature = many + kStandardEd25519, .secrets = {kStandardPublicKey}}),
            SignatureCheck::wrong);
}

TEST(StandardWebhooksSignature, ASecretKeyIsRefusedWithoutShowingIt) {
  const std::string text = refusal(options(WebhookScheme::standard_webhooks, {kStandardSecretKey}));
  EXPECT_NE(text.find("whpk_"), std::string::npos) << text;
  EXPECT_EQ(text.find("6Xb"), std::string::npos) << text;
  EXPECT_NE(refusal(options(WebhookScheme::standard_webhooks, {"whpk_c2hvcnQ="})), "");
}

SignatureCheck check_fields(std::initializer_list<Fields::Entry> fields) {
  return WebhookSignature(options(WebhookScheme::standard_webhooks, {kStandardSecret}))
      .check(request(kStandardBody, fields), at(kStandardTime));
}

TEST(StandardWebhooksSignature, TheNamesOfSvixAreKnown) {
  const std::string time = std::to_string(kStandardTime);
  EXPECT_EQ(check_fields({{"svix-id", kStandardId},
                          {"svix-timestamp", time},
                          {"svix-signature", kStandardSignature}}),
            SignatureCheck::good);
  EXPECT_EQ(check_fields({{"svix-id", kStandardId}, {"svix-signature", kStandardSignature}}),
            SignatureCheck::missing);
}

TEST(StandardWebhooksSignature, NamesOfSvixAndOthersAreNotMixed) {
  const std::string time = std::to_string(kStandardTime);
  // What is not signed could otherwise stand for what is.
  for (const char* const name : {"webhook-id", "webhook-timestamp", "webhook-signature"}) {
    EXPECT_EQ(check_fields({{"svix-id", kStandardId},
                            {"svix-timestamp", time},
                            {"svix-signature", kStandardSignature},
                            {name, "another"}}),
              SignatureCheck::missing)
        << name;
  }
  EXPECT_EQ(check_fields({{"webhook-id", kStandardId},
                          {"webhook-timestamp", time},
                          {"webhook-signature", kStandardSignature},
                          {"svix-id", "another"}}),
            SignatureCheck::good);
}

TEST(StandardWebhooksSignature, ASecretThatIsNoBase64IsRefusedWithoutShowingIt) {
  const std::string text = refusal(options(WebhookScheme::standard_webhooks, {"whsec_hidden!"}));
  EXPECT_NE(text.find("base64"), std::string::npos) << text;
  EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
}

// Stripe: the form of its page "Webhook signatures" ----------------------------------------------

const std::string kStripeBody = R"({"id":"evt_test_webhook","object":"event"})";
// HMAC-SHA256 with "whsec_test_secret" of "1492774577." and the body.
const std::string kStripeV1 = "88a022085c6bdb887b02cb26ff76dd681234d9675c0f22844059f55552a8883a";
constexpr std::int64_t kStripeTime = 1492774577;

SignatureCheck check_stripe(const std::string& header, std::int64_t now = kStripeTime,
                            std::vector<std::string> secrets = {"whsec_test_secret"}) {
  return WebhookSignature(options(WebhookScheme::stripe, std::move(secrets)))
      .check(request(kStripeBody, {{"Stripe-Signature", header}}), at(now));
}

TEST(StripeSignature, TheDocumentedFormIsGood) {
  EXPECT_EQ(check_stripe("t=1492774577,v1=" + kStripeV1 + ",v0=6ffbb59b"), SignatureCheck::good);
  EXPECT_EQ(check_stripe("t=1492774577, v1=" + kStripeV1), SignatureCheck::good);
}

TEST(StripeSignature, WhileASecretIsRolledThereAreTwoSignatures) {
  EXPECT_EQ(check_stripe("t=1492774577,v1=" + std::string(64, '0') + ",v1=" + kStripeV1),
            SignatureCheck::good);
  EXPECT_EQ(check_stripe("t=1492774577,v1=" + kStripeV1, kStripeTime,
                         {"whsec_newer", "whsec_test_secret"}),
            SignatureCheck::good);
}

TEST(StripeSignature, TheTimeIsSignedAndChecked) {
  EXPECT_EQ(check_stripe("t=1492774578,v1=" + kStripeV1), SignatureCheck::wrong);
  EXPECT_EQ(check_stripe("t=1492774577,v1=" + kStripeV1, kStripeTime + 301),
            SignatureCheck::untimely);
}

TEST(StripeSignature, AWrongSignatureIsWrongWhateverItsTime) {
  EXPECT_EQ(check_stripe("t=1,v1=" + kStripeV1), SignatureCheck::wrong);
}

TEST(StripeSignature, OtherFormsAreMalformed) {
  for (const std::string& header :
       {std::string(), std::string("t=1492774577"), "v1=" + kStripeV1, "t=,v1=" + kStripeV1,
        "t=1492774577,v0=" + kStripeV1, std::string("t=1492774577,v1="), std::string(",,,,=,"),
        "t=149277457a,v1=" + kStripeV1}) {
    const SignatureCheck check = check_stripe(header);
    EXPECT_NE(check, SignatureCheck::good) << header;
    EXPECT_NE(check, SignatureCheck::untimely) << header;
  }
}

// HMAC: RFC 2202 and RFC 4231, test case 2 --------------------------------------------------------

struct HmacVector {
  HmacAlgorithm algorithm;
  std::string hex;
};

const std::vector<HmacVector> kVectors = {
    {HmacAlgorithm::sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"},
    {HmacAlgorithm::sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {HmacAlgorithm::sha512,
     "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
     "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"}};

TEST(HmacSignature, TheVectorsOfTheRfcsAreGood) {
  for (const HmacVector& vector : kVectors) {
    WebhookOptions hmac = options(WebhookScheme::hmac, {"Jefe"});
    hmac.hmac = {.header = "X-Signature", .prefix = "v=", .algorithm = vector.algorithm};
    const Request signed_request =
        request("what do ya want for nothing?", {{"x-signature", "v=" + vector.hex}});
    EXPECT_EQ(WebhookSignature(hmac).check(signed_request, at(0)), SignatureCheck::good)
        << vector.hex;
  }
}

TEST(HmacSignature, UpperCaseAndBase64AreRead) {
  WebhookOptions hmac = options(WebhookScheme::hmac, {"Jefe"});
  hmac.hmac = {.header = "X-Signature"};
  const std::string body = "what do ya want for nothing?";
  EXPECT_EQ(WebhookSignature(hmac).check(
                request(body, {{"X-Signature",
                                "5BDCC146BF60754E6A042426089575C75A003F089D2739839DE"
                                "C58B964EC3843"}}),
                at(0)),
            SignatureCheck::good);
  hmac.hmac.encoding = SignatureEncoding::base64;
  EXPECT_EQ(
      WebhookSignature(hmac).check(
          request(body, {{"X-Signature", "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="}}), at(0)),
      SignatureCheck::good);
}

TEST(WebhookSignatureOptions, WhatCannotWorkIsNamed) {
  EXPECT_NE(refusal(options(WebhookScheme::github, {})).find("secrets"), std::string::npos);
  EXPECT_NE(refusal(options(WebhookScheme::github, {""})).find("empty"), std::string::npos);
  EXPECT_NE(refusal(options(WebhookScheme::none, {"x"})).find("none"), std::string::npos);
  EXPECT_NE(refusal(options(WebhookScheme::hmac, {"x"})).find("hmac.header"), std::string::npos);
  WebhookOptions stripe = options(WebhookScheme::stripe, {"x"});
  stripe.hmac.header = "X-Signature";
  EXPECT_NE(refusal(stripe).find("hmac.header"), std::string::npos);
  WebhookOptions hasty = options(WebhookScheme::stripe, {"x"});
  hasty.tolerance = 0s;
  EXPECT_NE(refusal(hasty).find("tolerance"), std::string::npos);
}

TEST(WebhookSignatureOptions, SchemeNoneTakesEverything) {
  EXPECT_EQ(WebhookSignature(options(WebhookScheme::none, {})).check(request("", {}), at(0)),
            SignatureCheck::good);
}

}  // namespace
}  // namespace oncebox::server
