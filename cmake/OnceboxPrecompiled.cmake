# Precompiled headers: what most files include and nobody edits. Headers of this project stay out,
# so that a change to one of them compiles again only what includes it. A precompiled header hides
# a missing #include, and so does a unity build; that is why the presets lint and coverage do
# without either, and ./dev lint reads every file by itself.

# oncebox_reuse_precompiled(<target> library|program|test)
#
# Has the target start from one of the precompiled headers below, if there are any. Its flags must
# be those of oncebox_target_defaults with fmt::fmt, of oncebox_program_defaults, or of
# oncebox_test_defaults with GTest::gtest; more definitions do no harm.
function(oncebox_reuse_precompiled target kind)
  if(TARGET oncebox_precompiled_${kind})
    target_precompile_headers(${target} REUSE_FROM oncebox_precompiled_${kind})
  endif()
endfunction()

if(NOT ONCEBOX_PRECOMPILE_HEADERS)
  return()
endif()

set(_oncebox_standard_headers
  <algorithm>
  <array>
  <atomic>
  <chrono>
  <condition_variable>
  <cstddef>
  <cstdint>
  <functional>
  <map>
  <memory>
  <mutex>
  <optional>
  <set>
  <span>
  <sstream>
  <stdexcept>
  <string>
  <string_view>
  <thread>
  <unordered_map>
  <utility>
  <variant>
  <vector>)

file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "")
set(_oncebox_kinds library program)
if(ONCEBOX_BUILD_TESTS)
  list(APPEND _oncebox_kinds test)
endif()
foreach(_oncebox_kind IN LISTS _oncebox_kinds)
  add_library(oncebox_precompiled_${_oncebox_kind} OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
  target_link_libraries(oncebox_precompiled_${_oncebox_kind} PRIVATE Threads::Threads)
  target_precompile_headers(oncebox_precompiled_${_oncebox_kind} PRIVATE
    ${_oncebox_standard_headers})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Without a time in it the compiler cache recognises the same one.
    target_compile_options(oncebox_precompiled_${_oncebox_kind} PRIVATE
      "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endforeach()

oncebox_target_defaults(oncebox_precompiled_library)
target_link_libraries(oncebox_precompiled_library PRIVATE fmt::fmt)
target_precompile_headers(oncebox_precompiled_library PRIVATE <fmt/format.h>)

oncebox_program_defaults(oncebox_precompiled_program)

if(ONCEBOX_BUILD_TESTS)
  oncebox_test_defaults(oncebox_precompiled_test)
  target_link_libraries(oncebox_precompiled_test PRIVATE GTest::gtest)
  target_precompile_headers(oncebox_precompiled_test PRIVATE <gtest/gtest.h>)
endif()
