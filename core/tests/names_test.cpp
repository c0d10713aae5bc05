#include "oncebox/names.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/message.hpp"

namespace oncebox {
namespace {

std::string repeat(std::string_view text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

template <class NameType>
class NamesTest : public ::testing::Test {};

using NameTypes = ::testing::Types<Source, MessageId, Topic, PartitionKey>;
TYPED_TEST_SUITE(NamesTest, NameTypes);

TYPED_TEST(NamesTest, TakeUpTo255CodePointsInAnyScript) {
  this->RecordProperty("requirement", "R-21");
  for (const std::string_view character : {"a", "é", "Ω", "漢", "🙂"}) {
    const std::string longest = repeat(character, 255);
    EXPECT_EQ(TypeParam(longest).str(), longest);
    expect_error(ErrorCode::invalid_argument, [&] { TypeParam{repeat(character, 256)}; });
  }
}

TYPED_TEST(NamesTest, RejectEmptyTextNulAndInvalidUtf8) {
  this->RecordProperty("requirement", "R-21");
  const std::vector<std::string> bad = {
      "",
      std::string("a\0b", 3),
      "\xC3",              // cut short
      "\xC0\xAF",          // overlong
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // beyond U+10FFFF
      "\x80",              // continuation without a beginning
      "ok\xFF",
  };
  for (const std::string& text : bad) {
    expect_error(ErrorCode::invalid_argument, [&] { TypeParam{text}; });
  }
}

TYPED_TEST(NamesTest, AreComparedByteByByteAndNeverTrimmed) {
  EXPECT_NE(TypeParam("Order"), TypeParam("order"));
  EXPECT_NE(TypeParam("a"), TypeParam("a "));
  EXPECT_NE(TypeParam("\xC3\xA9"), TypeParam("e\xCC\x81"));  // é composed and decomposed
  EXPECT_EQ(TypeParam(" a ").str(), " a ");
}

TEST(MessageKey, HashTellsApartWhatConcatenationWouldNot) {
  const std::hash<MessageKey> hash;
  EXPECT_NE(hash({"ab", "c"}), hash({"a", "bc"}));
  EXPECT_NE(hash({"a", "b"}), hash({"b", "a"}));
  EXPECT_EQ(hash({"a", "b"}), hash({"a", "b"}));
}

TEST(IdempotencyKey, MayBeLongerThanAName) {
  EXPECT_EQ(IdempotencyKey(std::string(1024, 'k')).str().size(), 1024U);
  expect_error(ErrorCode::invalid_argument, [] { IdempotencyKey{std::string(1025, 'k')}; });
}

TEST(Priority, GoesFromMinus100To100) {
  EXPECT_EQ(Priority(-100).value(), -100);
  EXPECT_EQ(Priority(100).value(), 100);
  EXPECT_LT(Priority(-1), Priority(0));
  expect_error(ErrorCode::out_of_range, [] { Priority{101}; });
  expect_error(ErrorCode::out_of_range, [] { Priority{-101}; });
}

TEST(ClipText, CutsAtACharacterAndKeepsShortTextsWhole) {
  ::testing::Test::RecordProperty("requirement", "R-27");
  EXPECT_EQ(clip_text("short", 100), "short");
  EXPECT_EQ(clip_text("aé", 2), "a");
  EXPECT_EQ(clip_text("aé", 3), "aé");
  EXPECT_EQ(clip_text("🙂🙂", 7), "🙂");
  EXPECT_EQ(clip_text(repeat("é", 2'000), 2'048), repeat("é", 1'024));
}

TEST(ClipText, ReplacesWhatNoStoreCouldKeep) {
  ::testing::Test::RecordProperty("requirement", "R-27");
  EXPECT_EQ(clip_text(std::string("a\0b", 3), 100),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(clip_text("\xFF", 100), "\xEF\xBF\xBD");
  EXPECT_EQ(clip_text("\xFF", 2), "");
}

}  // namespace
}  // namespace oncebox
