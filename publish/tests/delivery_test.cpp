#include "oncebox/publish/delivery.hpp"

#include <gtest/gtest.h>

#include <string>

#include "expect_error.hpp"
#include "oncebox/error.hpp"
#include "oncebox/publish/secret.hpp"

namespace oncebox::publish {
namespace {

using namespace std::chrono_literals;

Message whole(const std::string& id = "order@1", const std::string& partition = "customer@7") {
  return {.key = {"shop", id},
          .topic = "order.paid",
          .payload = "{}",
          .headers = {{"contentType", "application/json"}, {"oncebox-topic", "of somebody else"}},
          .priority = 3,
          .partition_key = PartitionKey(partition),
          .expires_at = TimePoint{1h}};
}

Message without_our_headers(Message message) {
  message.headers.erase(kTopicHeader);
  return message;
}

TEST(Delivery, HasTheEndpointForItsTopicAndAKeyThatTellsBoth) {
  const Message delivery = delivery_of(whole(), "crm");
  EXPECT_EQ(delivery.topic, Topic("crm"));
  EXPECT_EQ(delivery.key, (MessageKey{"shop", "order@1@crm"}));
  EXPECT_EQ(delivery.key, delivery_key(whole().key, "crm"));
  EXPECT_EQ(delivery.partition_key, PartitionKey("customer@7@crm"));
  EXPECT_EQ(delivery.headers.get(kTopicHeader), "order.paid");
}

TEST(Delivery, GivesTheMessageBack) {
  EXPECT_EQ(original_of(delivery_of(whole(), "crm")), without_our_headers(whole()));
  Message plain = whole();
  plain.partition_key.reset();
  EXPECT_EQ(original_of(delivery_of(plain, "crm")), without_our_headers(plain));
}

TEST(Delivery, GivesLongNamesBackToo) {
  const std::string longest(kMaxNameCodePoints, 'x');
  const Message message = whole(longest, longest);
  const Message delivery = delivery_of(message, std::string(64, 'e'));
  EXPECT_LE(delivery.key.message_id.str().size(), kMaxNameCodePoints);
  EXPECT_EQ(original_of(delivery), without_our_headers(message));
  EXPECT_NE(delivery.key, delivery_of(whole(longest.substr(1)), std::string(64, 'e')).key);
}

TEST(Delivery, ThatIsClaimedGivesTheMessageBackWithAllThatTheClaimTells) {
  const ClaimedMessage delivery{.message = delivery_of(whole(), "crm"),
                                .history = {.attempt = 2, .deliveries = 3},
                                .owner = OwnerToken::generate(),
                                .delivery = DeliveryNumber{7},
                                .locked_until = TimePoint{2h},
                                .eligible_at = TimePoint{1h},
                                .revived_at = TimePoint{30min},
                                .attempt_limit = AttemptLimit{4, 72h}};
  ClaimedMessage expected = delivery;
  expected.message = without_our_headers(whole());
  EXPECT_EQ(original_of(delivery), expected);
}

TEST(Delivery, IsDueAtOnce) {
  Message message = whole();
  message.due_at = TimePoint{1h};
  EXPECT_EQ(delivery_of(message, "crm").due_at, std::nullopt);
}

TEST(Delivery, IsATestByAHeaderThatNoMessageOfTheOutboxKeeps) {
  Message message = whole();
  message.topic = Topic(std::string(kTestTopic));
  message.headers.set(kTestHeader, "true");
  Message delivery = delivery_of(message, "crm");
  EXPECT_FALSE(is_test(delivery));
  delivery.headers.set(kTestHeader, "true");
  EXPECT_TRUE(is_test(delivery));
  EXPECT_FALSE(original_of(delivery).headers.get(kTestHeader)) << "no receiver gets it";
}

TEST(Delivery, AnyOtherMessageIsRefused) {
  const Message other{.key = {"shop", "1@crm"}, .topic = "crm"};
  expect_error(ErrorCode::invalid_argument, [&] { (void)original_of(other); });
}

TEST(Secret, IsNamedAndNeverShown) {
  EXPECT_EQ(resolve_secret("literal:s3cret"), "s3cret");
  EXPECT_TRUE(is_literal_secret("literal:s3cret"));
  EXPECT_FALSE(is_literal_secret("file:literal:"));
  try {
    (void)resolve_secret("s3cret");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("s3cret"), std::string::npos);
  }
  EXPECT_NE(expect_error(ErrorCode::invalid_argument,
                         [] { (void)resolve_secret("env:ONCEBOX_NO_SUCH_VARIABLE"); })
                .find("ONCEBOX_NO_SUCH_VARIABLE"),
            std::string::npos);
  expect_error(ErrorCode::invalid_argument, [] { (void)resolve_secret("file:/no/such/file"); });
}

}  // namespace
}  // namespace oncebox::publish
