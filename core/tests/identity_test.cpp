#include <gtest/gtest.h>

#include <set>

#include "expect_error.hpp"
#include "oncebox/content_hash.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox {
namespace {

constexpr TimePoint kTime{Duration{0x0190163d8694}};

TEST(Uuid, Version7CarriesTheTimeTheVersionAndTheVariant) {
  const std::string text = Uuid::generate_v7(kTime).to_string();
  EXPECT_EQ(text.substr(0, 13), "0190163d-8694");
  EXPECT_EQ(text[14], '7');
  EXPECT_NE(std::string("89ab").find(text[19]), std::string::npos);
}

TEST(Uuid, GeneratedOnesDifferAndSortByMillisecond) {
  std::set<Uuid> seen;
  for (int i = 0; i < 1'000; ++i) seen.insert(Uuid::generate_v7(kTime));
  EXPECT_EQ(seen.size(), 1'000U);
  EXPECT_LT(*seen.rbegin(), Uuid::generate_v7(kTime + Duration{1}));
}

TEST(Uuid, ReadsWhatItWroteInEitherCase) {
  const Uuid uuid = Uuid::generate_v7(kTime);
  EXPECT_EQ(Uuid::parse(uuid.to_string()), uuid);
  EXPECT_EQ(Uuid::parse("0190163D-8694-739B-AEA5-966C26F8AD91").to_string(),
            "0190163d-8694-739b-aea5-966c26f8ad91");
}

TEST(Uuid, RejectsTextThatIsNone) {
  for (const auto* text :
       {"", "x", "0190163d-8694-739b-aea5-966c26f8ad9", "0190163d-8694-739b-aea5-966c26f8ad911",
        "0190163d08694-739b-aea5-966c26f8ad91", "0190163g-8694-739b-aea5-966c26f8ad91"}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)Uuid::parse(text); });
  }
}

TEST(OwnerToken, IsNeverNil) {
  RecordProperty("requirement", "IBX-043,IBX-130");
  expect_error(ErrorCode::invalid_argument, [] { OwnerToken{Uuid()}; });
  expect_error(ErrorCode::invalid_argument,
               [] { (void)OwnerToken::parse("00000000-0000-0000-0000-000000000000"); });
  EXPECT_NE(OwnerToken::generate(), OwnerToken::generate());
}

TEST(OwnerToken, IsNotALeaseId) {
  static_assert(!std::is_convertible_v<OwnerToken, LeaseId>);
  static_assert(!std::is_constructible_v<LeaseId, OwnerToken>);
}

TEST(ContentHash, Sha256AgreesWithThePublishedVectors) {
  RecordProperty("requirement", "IBX-129,R-18");
  EXPECT_EQ(ContentHash::sha256_of("").digest_hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ContentHash::sha256_of("abc").digest_hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ContentHash::sha256_of("abc").algorithm(), "sha256");
}

TEST(ContentHash, OnlyDigestsOfOneAlgorithmAreCompared) {
  RecordProperty("requirement", "R-18");
  const ContentHash md5("md5", "0123456789abcdef");
  EXPECT_FALSE(md5.comparable_with(ContentHash::sha256_of("abc")));
  EXPECT_TRUE(md5.comparable_with(ContentHash("md5", "x")));
}

TEST(ContentHash, RejectsBadAlgorithmsAndSizes) {
  for (const auto* algorithm : {"", "SHA256", "sha 256", "sha256\n"}) {
    expect_error(ErrorCode::invalid_argument, [&] { ContentHash(algorithm, "x"); });
  }
  expect_error(ErrorCode::invalid_argument, [] { ContentHash(std::string(33, 'a'), "x"); });
  expect_error(ErrorCode::invalid_argument, [] { ContentHash("sha256", ""); });
  expect_error(ErrorCode::invalid_argument, [] { ContentHash("sha256", std::string(65, 'x')); });
  EXPECT_EQ(ContentHash(std::string(32, 'a'), std::string(64, 'x')).digest().size(), 64U);
}

TEST(Quarantine, TheDerivedIdIsStableShortAndItsOwnForEachContent) {
  RecordProperty("requirement", "R-18");
  const std::string longest(255, 'i');
  const MessageKey key{"shop", longest};
  const auto a = ContentHash::sha256_of("a");
  const auto b = ContentHash::sha256_of("b");
  EXPECT_EQ(quarantine_id(key, a), quarantine_id(key, a));
  EXPECT_NE(quarantine_id(key, a), quarantine_id(key, b));
  EXPECT_NE(quarantine_id(key, a), quarantine_id({"bank", longest}, a));
  EXPECT_NE(quarantine_id({"ab", "c"}, a), quarantine_id({"a", "bc"}, a));
}

TEST(Quarantine, TheCopyTellsWhereItCameFromEvenWithAllHeadersTaken) {
  RecordProperty("requirement", "R-18");
  Message message{.key = {"shop", "1"}, .topic = "order", .payload = "new"};
  for (std::size_t i = 0; i < Headers::kMaxEntries; ++i) {
    message.headers.set("h" + std::to_string(i), "v");
  }
  message.hash = ContentHash::sha256_of(message.payload);
  const Message copy = quarantined_copy(message);
  EXPECT_EQ(copy.key.source, message.key.source);
  EXPECT_NE(copy.key.message_id, message.key.message_id);
  EXPECT_EQ(copy.headers.get(header_names::kQuarantinedFrom), "1");
  EXPECT_EQ(copy.headers.size(), Headers::kMaxEntries);
  EXPECT_EQ(copy.payload, message.payload);
}

}  // namespace
}  // namespace oncebox
