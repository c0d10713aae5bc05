#include <gtest/gtest.h>

#include "oncebox/content_hash.hpp"
#include "oncebox/error.hpp"
#include "oncebox/sql/header_json.hpp"
#include "oncebox/sql/key_status.hpp"
#include "oncebox/sql/storage_key.hpp"

namespace oncebox::sql {
namespace {

std::string hex(const StorageKey& key) {
  return to_hex({reinterpret_cast<const char*>(key.data()), key.size()});
}

TEST(StorageKey, IsTheSameInEveryVersion) {
  RecordProperty("requirement", "IBX-001");
  // A stored key must be found again by every later version of the library.
  EXPECT_EQ(hex(storage_key(MessageKey{"stripe", "evt_1"})), "6ca03e2cdf2169a4c686cdee2e3af69b");
}

TEST(StorageKey, KeepsThePartsApart) {
  RecordProperty("requirement", "IBX-001,R-01");
  EXPECT_NE(storage_key(MessageKey{"ab", "c"}), storage_key(MessageKey{"a", "bc"}));
  EXPECT_NE(storage_key(MessageKey{"a", "b"}), storage_key(MessageKey{"b", "a"}));
  EXPECT_NE(storage_key(MessageKey{"a", "b"}), storage_key(MessageKey{"A", "b"}));
}

TEST(KeyStatusCode, IsTheSameInEveryVersion) {
  EXPECT_EQ(code_of(KeyStatus::in_progress), 0);
  EXPECT_EQ(code_of(KeyStatus::released), 1);
  EXPECT_EQ(code_of(KeyStatus::failed), 2);
  EXPECT_EQ(code_of(KeyStatus::processed), 3);
  EXPECT_EQ(key_status(3), KeyStatus::processed);
  EXPECT_EQ(key_status(4), std::nullopt);
  EXPECT_EQ(key_status(-1), std::nullopt);
}

TEST(HeaderJson, ReadsBackWhatItWrote) {
  RecordProperty("requirement", "MSG-04");
  const Headers headers{{"correlationId", "c-1"},
                        {"quote", "\"\\\n\t"},
                        {"näme", "wért \xf0\x9f\x93\xa6"},
                        {"empty", ""}};
  const std::optional<std::string> text = to_json(headers);
  ASSERT_TRUE(text);
  EXPECT_EQ(headers_from_json(*text), headers);
}

TEST(HeaderJson, NoHeadersAreNoText) { EXPECT_EQ(to_json(Headers{}), std::nullopt); }

TEST(HeaderJson, AnythingElseIsCorrupt) {
  for (const char* text : {"", "[]", "{\"a\":1}", "{\"a\":", "null"}) {
    try {
      (void)headers_from_json(text);
      ADD_FAILURE() << "read " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << text;
    }
  }
}

}  // namespace
}  // namespace oncebox::sql
