#include "oncebox/wire/json_lookup.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace oncebox::wire {
namespace {

using Found = std::optional<std::string>;

TEST(JsonLookup, NumbersAreAsTheyWereWritten) {
  for (const char* number :
       {"18446744073709551616", "18446744073709551617", "-18446744073709551617", "1", "1.0", "1e0",
        "1E+0", "0.1000000000000000055511151231257827", "1e400", "-0", "9007199254740993"}) {
    const std::string json = std::string(R"({"id":)") + number + "}";
    EXPECT_EQ(JsonLookup(json).find("/id"), Found(number));
    EXPECT_EQ(JsonLookup(number).find(""), Found(number));
    const std::string array = std::string("[ 5 , ") + number + " ]";
    EXPECT_EQ(JsonLookup(array).find("/1"), Found(number));
  }
}

TEST(JsonLookup, StringsSayWhatTheyStandFor) {
  const JsonLookup json(R"({"a":"x\u00e9\n","b":true,"c":"","d":"18446744073709551617"})");
  EXPECT_EQ(json.find("/a"), Found("x\xc3\xa9\n"));
  EXPECT_EQ(json.find("/b"), Found("true"));
  EXPECT_EQ(json.find("/c"), Found(""));
  EXPECT_EQ(json.find("/d"), Found("18446744073709551617"));
}

TEST(JsonLookup, PointersAreRfc6901) {
  const JsonLookup json(R"( {"a/b":1,"m~n":2,"":3,"~1":4,"e\"f":5," ":6,"0":7,
                            "x":[[],{"y":[10,11,12]}],"tw\u006f":8} )");
  EXPECT_EQ(json.find("/a~1b"), Found("1"));
  EXPECT_EQ(json.find("/m~0n"), Found("2"));
  EXPECT_EQ(json.find("/"), Found("3"));
  EXPECT_EQ(json.find("/~01"), Found("4"));
  EXPECT_EQ(json.find("/e\"f"), Found("5"));
  EXPECT_EQ(json.find("/ "), Found("6"));
  EXPECT_EQ(json.find("/0"), Found("7"));
  EXPECT_EQ(json.find("/two"), Found("8"));
  EXPECT_EQ(json.find("/x/1/y/2"), Found("12"));
  for (const char* nothing :
       {"", "/x", "/x/0", "/x/1", "/x/-", "/x/01/y/0", "/x/1/y/3", "/x/1/y/+1", "/x/1/y/",
        "/x/1/y/99999999999999999999", "/x/0/0", "/a~1b/c", "/none"}) {
    EXPECT_EQ(json.find(nothing), std::nullopt) << nothing;
  }
}

TEST(JsonLookup, OfMembersOfOneNameTheLastCounts) {
  EXPECT_EQ(JsonLookup(R"({"a":1,"a":2})").find("/a"), Found("2"));
}

TEST(JsonLookup, InTextThatIsNotJsonNothingIsFound) {
  for (const char* text :
       {"", " ", "{", R"({"a":1} x)", R"({"a":01})", "nul", "\"\xff\"", "null"}) {
    const JsonLookup json(text);
    EXPECT_EQ(json.find(""), std::nullopt) << text;
    EXPECT_EQ(json.find("/a"), std::nullopt) << text;
  }
}

TEST(JsonLookup, TextThatIsNestedTooDeepCountsAsNotJson) {
  const auto nested = [](std::size_t levels) {
    return R"({"id":1,"a":)" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
  };
  const std::string fits = nested(JsonLookup::kMaxNesting);
  EXPECT_EQ(JsonLookup(fits).find("/id"), Found("1"));
  const std::string too_deep = nested(JsonLookup::kMaxNesting + 1);
  EXPECT_EQ(JsonLookup(too_deep).find("/id"), std::nullopt);
}

}  // namespace
}  // namespace oncebox::wire
