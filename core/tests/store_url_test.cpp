#include "oncebox/store_url.hpp"

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
       {"://user:s3cret@host", "pg:user:s3cret@host?x", "pg:s3cret?a=%z", "pg:s3cret?a=1&a=2"}) {
    const std::string error = expect_error(ErrorCode::invalid_argument, [&] { StoreUrl{text}; });
    EXPECT_EQ(error.find("s3cret"), std::string::npos) << error;
  }
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
