#include "oncebox/receive/result_codec.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "expect_error.hpp"

namespace oncebox {
namespace {

template <class T>
void expect_round_trip(const T& value, const std::string& text) {
  EXPECT_EQ(ResultCodec<T>::encode(value), text);
  EXPECT_EQ(ResultCodec<T>::decode(text), value) << text;
}

static_assert(StorableResult<bool> && StorableResult<int> && StorableResult<std::uint64_t> &&
              StorableResult<double> && StorableResult<std::string> &&
              StorableResult<std::monostate>);
static_assert(!StorableResult<std::thread::id>, "a type without a codec");

TEST(ResultCodec, WritesJsonAndReadsItBack) {
  RecordProperty("requirement", "PKT-03");
  expect_round_trip(true, "true");
  expect_round_trip(false, "false");
  expect_round_trip(-7, "-7");
  expect_round_trip(std::numeric_limits<std::int64_t>::min(), "-9223372036854775808");
  expect_round_trip(std::numeric_limits<std::uint64_t>::max(), "18446744073709551615");
  expect_round_trip(0.1, "0.1");
  expect_round_trip(1e300, "1e+300");
  expect_round_trip(std::numeric_limits<double>::denorm_min(), "5e-324");
  expect_round_trip(std::monostate{}, "null");
  expect_round_trip(std::string("receipt \"7\"\n"), R"("receipt \"7\"\n")");
  expect_round_trip(std::string(), R"("")");
}

TEST(ResultCodec, KeepsStringsOfAnyBytes) {
  RecordProperty("requirement", "PKT-03");
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(ResultCodec<std::string>::decode(ResultCodec<std::string>::encode(bytes)), bytes);
}

TEST(ResultCodec, WhatIsNoResultIsNothing) {
  RecordProperty("requirement", "PKT-03");
  EXPECT_EQ(ResultCodec<bool>::decode("1"), std::nullopt);
  EXPECT_EQ(ResultCodec<int>::decode("1.5"), std::nullopt);
  EXPECT_EQ(ResultCodec<int>::decode(""), std::nullopt);
  EXPECT_EQ(ResultCodec<int>::decode("9999999999"), std::nullopt) << "does not fit";
  EXPECT_EQ(ResultCodec<std::uint8_t>::decode("256"), std::nullopt);
  EXPECT_EQ(ResultCodec<std::uint8_t>::decode("-1"), std::nullopt);
  EXPECT_EQ(ResultCodec<double>::decode("nan"), std::nullopt);
  EXPECT_EQ(ResultCodec<double>::decode("inf"), std::nullopt);
  EXPECT_EQ(ResultCodec<std::string>::decode("bare"), std::nullopt);
  EXPECT_EQ(ResultCodec<std::string>::decode("7"), std::nullopt);
  EXPECT_EQ(ResultCodec<std::monostate>::decode("0"), std::nullopt);
}

TEST(ResultCodec, RefusesNumbersThatJsonDoesNotHave) {
  for (const double number : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)ResultCodec<double>::encode(number); });
  }
}

}  // namespace
}  // namespace oncebox
