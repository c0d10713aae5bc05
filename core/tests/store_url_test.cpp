#include "oncebox/driver/store_url.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox {
namespace {

TEST(StoreUrl, IsSplitIntoSchemeLocationAndParameters) {
  StoreUrl url("sqlite:/var/lib/box.db?a=1&name=two%20words&empty=");
  EXPECT_EQ(url.scheme(), "sqlite");
  EXPECT_EQ(url.location(), "/var/lib/box.db");
  EXPECT_EQ(url.take_number("a"), 1U);
  EXPECT_EQ(url.take("name"), "two words");
  EXPECT_EQ(url.take("empty"), "");
  EXPECT_EQ(url.take("name"), std::nullopt);
  url.require_no_more_parameters();
}

TEST(StoreUrl, WhatNobodyTookIsNamed) {
  const StoreUrl url("memory:?max_mesages=5");
  const std::string text =
      expect_error(ErrorCode::invalid_argument, [&] { url.require_no_more_parameters(); });
  EXPECT_NE(text.find("max_mesages"), std::string::npos);
}

TEST(StoreUrl, AnErrorNeverShowsAPassword) {
  for (const auto* text :
       {"://user:s3cret@host", "pg:user:s3cret@host?x", "pg:s3cret?a=%z", "pg:s3cret?s3cret",
        "pg:s3cret?a=s3cret&a=s3cret", "pg:?a=s3cret", "pg://u:s3cret@h?a=s3cret"}) {
    const std::string error = expect_error(ErrorCode::invalid_argument, [&] {
      StoreUrl url(text);
      (void)url.take_number("a");
    });
    EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
  }
  StoreUrl url("pg://u:s3cret@h?a=s3cret");
  const std::string error =
      expect_error(ErrorCode::invalid_argument, [&] { (void)url.take_switch("a"); });
  EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
}

TEST(StoreUrl, AnImpossiblePortIsRefused) {
  for (const char* text :
       {"http://host:0", "http://host:65536", "http://host:99999/path", "http://host:-1",
        "http://host:80x", "http://host:80:80", "http://[::1]:70000", "http://[::1]x:80:1",
        "postgresql://u:s3cret@host:65536/db", "postgresql://a:5432,b:99999/db?user=u",
        "postgresql:///db?host=a,b&port=5432,99999"}) {
    const std::string error =
        expect_error(ErrorCode::invalid_argument, [&] { (void)StoreUrl(text); });
    EXPECT_NE(error.find("port"), std::string::npos) << text << ": " << error;
    EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
  }
  for (const char* text :
       {"http://host:1", "http://host:65535/path", "http://host:", "http://host", "http://[::1]:80",
        "http://[::1]", "postgresql://u:p:w@host:5432/db", "postgresql://u:p?w@host/db",
        "postgresql://a:5432,b:,c,[::1]:1/db", "postgresql://%2Frun%2Fpg:5432/db",
        "postgresql:///db?host=/run:9&port=5432,,1", "sqlite:///var/lib/a:b", "sqlite:a:99999"}) {
    EXPECT_NO_THROW((void)StoreUrl(text)) << text;
  }
}

TEST(StoreUrl, SwitchIsOnOrOff) {
  StoreUrl url("pg:?a=on&b=off&c=On");
  EXPECT_EQ(url.take_switch("a"), true);
  EXPECT_EQ(url.take_switch("b"), false);
  EXPECT_EQ(url.take_switch("d"), std::nullopt);
  expect_error(ErrorCode::invalid_argument, [&] { (void)url.take_switch("c"); });
}

TEST(StoreUrl, RepeatedParameterIsRefusedWhenItIsTaken) {
  StoreUrl url("m:?b=0&a=1&a=1");
  EXPECT_EQ(url.take("b"), "0");
  const std::string text = expect_error(ErrorCode::invalid_argument, [&] { (void)url.take("a"); });
  EXPECT_NE(text.find("parameter a twice"), std::string::npos) << text;
  expect_error(ErrorCode::invalid_argument, [&] { url.require_no_more_parameters(); });
}

TEST(StoreUrl, WhatWasNotTakenIsLeftAsItWasWritten) {
  StoreUrl url(
      "pg://a%40b:p%3Fw@[::1]:5433,h2:5434/db%20x?b=%41%2f&ours=1&b=2&%6furs%32=2&empty=&c=x%26y");
  EXPECT_EQ(url.take("ours"), "1");
  EXPECT_EQ(url.take("ours2"), "2");
  EXPECT_EQ(url.without_taken(),
            "pg://a%40b:p%3Fw@[::1]:5433,h2:5434/db%20x?b=%41%2f&b=2&empty=&c=x%26y");

  for (const auto* text : {"pg:", "pg://", "pg:///db", "pg://h?x=1", "pg:///?x=1&x=2", "pg:h"}) {
    EXPECT_EQ(StoreUrl(text).without_taken(), text);
  }
  StoreUrl all_taken("pg://h/db?a=1&b=2");
  EXPECT_EQ(all_taken.take("b"), "2");
  EXPECT_EQ(all_taken.take("a"), "1");
  EXPECT_EQ(all_taken.without_taken(), "pg://h/db");
}

TEST(StoreUrl, QuestionMarkInAPasswordDoesNotBeginTheParameters) {
  StoreUrl url("pg://user:what?&a=7@host/db?a=1");
  EXPECT_EQ(url.location(), "//user:what?&a=7@host/db");
  EXPECT_EQ(url.take("a"), "1");
  EXPECT_EQ(StoreUrl("pg://host/db?a=me@home").take("a"), "me@home");
  EXPECT_EQ(StoreUrl("pg:box.db?a=me@home").take("a"), "me@home");
}

TEST(StoreUrl, RejectsWhatIsNoUrl) {
  for (const auto* text :
       {"", "memory", ":x", "1x:", "Memory:", "a b:", "m:?=1", "m:?a", "m:?a=%1"}) {
    expect_error(ErrorCode::invalid_argument, [&] { StoreUrl{text}; });
  }
  expect_error(ErrorCode::invalid_argument, [] { StoreUrl{"m:" + std::string(9'000, 'x')}; });
  expect_error(ErrorCode::invalid_argument, [] { StoreUrl{"m:\xFF"}; });
  StoreUrl url("m:?n=12x");
  expect_error(ErrorCode::invalid_argument, [&] { (void)url.take_number("n"); });
}

}  // namespace
}  // namespace oncebox
