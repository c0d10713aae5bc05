#include "oncebox/error.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace oncebox {
namespace {

constexpr ErrorCode kAllCodes[] = {
    ErrorCode::invalid_argument, ErrorCode::out_of_range, ErrorCode::not_found,
    ErrorCode::conflict,         ErrorCode::overloaded,   ErrorCode::unavailable,
    ErrorCode::timeout,          ErrorCode::cancelled,    ErrorCode::outcome_unknown,
    ErrorCode::unsupported,      ErrorCode::corrupt,      ErrorCode::internal,
};

TEST(Error, EveryCodeHasAWordOfItsOwn) {
  std::set<std::string_view> words;
  for (const ErrorCode code : kAllCodes) words.insert(to_string(code));
  EXPECT_EQ(words.size(), std::size(kAllCodes));
}

TEST(Error, OnlyWhatMaySucceedUnchangedIsRetryable) {
  std::set<ErrorCode> retryable;
  for (const ErrorCode code : kAllCodes) {
    if (Error(code, "x").retryable()) retryable.insert(code);
  }
  EXPECT_EQ(retryable, (std::set{ErrorCode::overloaded, ErrorCode::unavailable, ErrorCode::timeout,
                                 ErrorCode::outcome_unknown}));
}

}  // namespace
}  // namespace oncebox
