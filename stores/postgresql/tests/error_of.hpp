#pragma once

#include <gtest/gtest.h>

#include "oncebox/error.hpp"

namespace oncebox::postgresql {

/// The error that a call throws. A call that throws none is a failure of the test.
template <class Call>
[[nodiscard]] Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return {ErrorCode::internal, "none"};
}

}  // namespace oncebox::postgresql
