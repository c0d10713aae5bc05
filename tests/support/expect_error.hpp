#pragma once

#include <gtest/gtest.h>

#include "oncebox/error.hpp"

namespace oncebox {

/// Expects `call` to throw an `Error` with this code, and answers its text.
template <class Call>
std::string expect_error(ErrorCode code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected the error " << to_string(code);
  return {};
}

}  // namespace oncebox
