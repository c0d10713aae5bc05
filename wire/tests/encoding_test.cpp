#include "oncebox/wire/encoding.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace oncebox::wire {
namespace {

using namespace std::string_view_literals;

TEST(Base64, TheExamplesOfRfc4648AreReadAndWritten) {
  const std::vector<std::pair<std::string, std::string>> examples = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {"\xff\xfe\xfd", "//79"},
  };
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, EveryByteComesBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes += static_cast<char>(byte);
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes) << byte;
  }
}

TEST(Base64, AnythingElseIsRefused) {
  for (const std::string_view text :
       {"Zg"sv, "Zg="sv, "Z==="sv, "===="sv, "Zg==Zg=="sv, "Zm9v\n"sv, " Zm9"sv, "Zm9-"sv, "Zm9_"sv,
        "Zh=="sv, "Zm9="sv, "Zg=a"sv, "Z\0=="sv}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

TEST(PercentEscapes, OnlyUnreservedCharactersStandForThemselves) {
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a:b/c d+ü%"), "a%3Ab%2Fc%20d%2B%C3%BC%25");
  EXPECT_EQ(percent_encode("\0"sv), "%00");
}

TEST(PercentEscapes, EveryByteComesBack) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    EXPECT_EQ(percent_decode(percent_encode(text)), text) << byte;
  }
}

TEST(PercentEscapes, ReadsBothCasesAndLeavesThePlusAlone) {
  EXPECT_EQ(percent_decode("%2f%2F+%c3%BC"), "//+ü");
}

TEST(PercentEscapes, ABrokenOneIsRefused) {
  for (const std::string_view text : {"%", "%2", "a%2", "%zz", "%2g", "%%41"}) {
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace oncebox::wire
