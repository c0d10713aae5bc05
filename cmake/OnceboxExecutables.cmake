if(ONCEBOX_BUILD_TESTS)
  include(GoogleTest)
endif()

# oncebox_add_test(<name> SOURCES <file>... [LINK <target>...] [TIMEOUT <seconds>] [NO_SHUFFLE])
#
# Adds the GoogleTest executable test_<name>. Every test in it becomes a ctest test named
# <prefix><name>.<Suite>.<Test>. In an ordinary build (no sanitizer) one more, <name>.shuffled, runs
# all of them in one process in random order, which is what finds tests that lean on each other;
# NO_SHUFFLE leaves it out.
function(oncebox_add_test name)
  if(NOT ONCEBOX_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_SHUFFLE" "TIMEOUT" "SOURCES;LINK")
  _oncebox_require_parsed(oncebox_add_test "${arg_UNPARSED_ARGUMENTS}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()

  set(target test_${name})
  add_executable(${target} ${arg_SOURCES})
  oncebox_test_defaults(${target})
  target_link_libraries(${target} PRIVATE ${arg_LINK} GTest::gtest_main)
  oncebox_reuse_precompiled(${target} test)
  gtest_discover_tests(${target}
    TEST_PREFIX "${ONCEBOX_TEST_PREFIX}${name}."
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${arg_TIMEOUT})

  if(ONCEBOX_SANITIZE STREQUAL "" AND NOT arg_NO_SHUFFLE)
    set(shuffled "${ONCEBOX_TEST_PREFIX}${name}.shuffled")
    add_test(NAME ${shuffled} COMMAND ${target} --gtest_shuffle --gtest_brief=1)
    math(EXPR shuffled_timeout "5 * ${arg_TIMEOUT}")
    set_tests_properties(${shuffled} PROPERTIES TIMEOUT ${shuffled_timeout})
  endif()
endfunction()

# oncebox_add_benchmark(<name> SOURCES <file>... [LINK <target>...])
#
# Adds the executable bench_<name>, which prints one JSON line per figure.
function(oncebox_add_benchmark name)
  if(NOT ONCEBOX_BUILD_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  _oncebox_require_parsed(oncebox_add_benchmark "${arg_UNPARSED_ARGUMENTS}")

  set(target bench_${name})
  add_executable(${target} ${arg_SOURCES})
  oncebox_program_defaults(${target})
  target_link_libraries(${target} PRIVATE ${arg_LINK})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/benchmarks")
endfunction()

# oncebox_add_example(<name> SOURCES <file>... [LINK <target>...])
#
# Adds the executable example_<name> and runs it as the ctest test example.<name>, which fails
# unless it prints what stands in <name>.out beside it.
function(oncebox_add_example name)
  if(NOT ONCEBOX_BUILD_EXAMPLES)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  _oncebox_require_parsed(oncebox_add_example "${arg_UNPARSED_ARGUMENTS}")

  set(target example_${name})
  add_executable(${target} ${arg_SOURCES})
  oncebox_program_defaults(${target})
  target_link_libraries(${target} PRIVATE ${arg_LINK})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  set(test "${ONCEBOX_TEST_PREFIX}example.${name}")
  add_test(NAME ${test}
    COMMAND "${CMAKE_COMMAND}"
      -D "PROGRAM=$<TARGET_FILE:${target}>"
      -D "EXPECTED=${CMAKE_CURRENT_SOURCE_DIR}/${name}.out"
      -P "${PROJECT_SOURCE_DIR}/cmake/run_and_compare.cmake")
  set_tests_properties(${test} PROPERTIES TIMEOUT 60)
endfunction()
