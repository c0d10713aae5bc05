if(ONCEBOX_BUILD_TESTS)
  include(GoogleTest)
endif()

# oncebox_add_test(<name> SOURCES <file>... [LINK <target>...] [TIMEOUT <seconds>] [NO_SHUFFLE]
#   [NEEDS_POSTGRESQL [ALSO_ON_POSTGRESQL_18]]
#   [SANITIZED_FILTER <filter>] [THREADS_FILTER <filter>] [GROUPS <name>=<filter>...])
#
# Adds the GoogleTest executable test_<name>. Every test in it becomes a ctest test named
# <prefix><name>.<Suite>.<Test>. In an ordinary build (no sanitizer) one more, <name>.shuffled, runs
# all of them in one process in random order, which is what finds tests that lean on each other;
# NO_SHUFFLE leaves it out.
#
# NEEDS_POSTGRESQL starts a server before them, for shared_postgresql_url() in oncebox::testing.
# With ALSO_ON_POSTGRESQL_18 they run a second time, all in one process and in random order, on a
# server of that version, as postgresql18.<name>.shuffled, if ONCEBOX_POSTGRESQL_18_BIN is set; the
# first server is then spared that. Failing at every step is left to the first server.
#
# GROUPS is for many short tests: each group is one ctest test, <name>.<group>, that runs the tests
# of its filter in one process and in random order.
#
# SANITIZED_FILTER names the tests that a sanitizer build runs (as --gtest_filter does), and
# THREADS_FILTER those that ThreadSanitizer runs: what has threads; otherwise all.
function(oncebox_add_test name)
  if(NOT ONCEBOX_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg
    "NO_SHUFFLE;NEEDS_POSTGRESQL;ALSO_ON_POSTGRESQL_18" "TIMEOUT;SANITIZED_FILTER;THREADS_FILTER"
    "SOURCES;LINK;GROUPS")
  _oncebox_require_parsed(oncebox_add_test "${arg_UNPARSED_ARGUMENTS}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()

  set(target test_${name})
  add_executable(${target} ${arg_SOURCES})
  oncebox_test_defaults(${target})
  # Tests may name their helpers as they like.
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  target_link_libraries(${target} PRIVATE ${arg_LINK} GTest::gtest_main)
  oncebox_reuse_precompiled(${target} test)

  set(properties "")
  if(arg_NEEDS_POSTGRESQL)
    _oncebox_postgresql_properties(postgresql properties)
    add_dependencies(${target} postgresql_fixture)
  endif()
  if(arg_GROUPS AND ONCEBOX_SANITIZE STREQUAL "thread" AND arg_THREADS_FILTER)
    set(arg_GROUPS "threads=${arg_THREADS_FILTER}")
  elseif(arg_GROUPS AND NOT ONCEBOX_SANITIZE STREQUAL "" AND arg_SANITIZED_FILTER)
    set(arg_GROUPS "sanitized=${arg_SANITIZED_FILTER}")
  endif()
  foreach(group IN LISTS arg_GROUPS)
    string(REGEX MATCH "^([a-z0-9_]+)=(.+)$" matched "${group}")
    set(test "${ONCEBOX_TEST_PREFIX}${name}.${CMAKE_MATCH_1}")
    add_test(NAME ${test}
      COMMAND ${target} --gtest_shuffle --gtest_brief=1 "--gtest_filter=${CMAKE_MATCH_2}")
    set_tests_properties(${test} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST 1000 ${properties})
  endforeach()
  if(arg_GROUPS)
    return()
  endif()
  set(filter "")
  if(ONCEBOX_SANITIZE STREQUAL "thread" AND arg_THREADS_FILTER)
    set(filter TEST_FILTER "${arg_THREADS_FILTER}")
  elseif(NOT ONCEBOX_SANITIZE STREQUAL "" AND arg_SANITIZED_FILTER)
    set(filter TEST_FILTER "${arg_SANITIZED_FILTER}")
  endif()
  gtest_discover_tests(${target}
    TEST_PREFIX "${ONCEBOX_TEST_PREFIX}${name}."
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    ${filter}
    PROPERTIES TIMEOUT ${arg_TIMEOUT} ${properties})
  if(NOT ONCEBOX_SANITIZE STREQUAL "" OR arg_NO_SHUFFLE)
    return()
  endif()

  # The random tests of the models lean on nothing, and take long enough once.
  set(filter "--gtest_filter=-*ModelConformance*")
  set(shuffled "${ONCEBOX_TEST_PREFIX}${name}.shuffled")
  if(arg_ALSO_ON_POSTGRESQL_18 AND ONCEBOX_POSTGRESQL_18_BIN)
    set(shuffled "${ONCEBOX_TEST_PREFIX}postgresql18.${name}.shuffled")
    set(filter "--gtest_filter=-*AtomicityConformance*")
    _oncebox_postgresql_properties(postgresql18 properties)
    # For the servers that they start themselves.
    list(APPEND properties
      ENVIRONMENT_MODIFICATION "ONCEBOX_POSTGRESQL_BIN=set:${ONCEBOX_POSTGRESQL_18_BIN}")
  endif()
  add_test(NAME ${shuffled} COMMAND ${target} --gtest_shuffle --gtest_brief=1 ${filter})
  math(EXPR shuffled_timeout "5 * ${arg_TIMEOUT}")
  # They take the longest, so they begin first.
  set_tests_properties(${shuffled} PROPERTIES TIMEOUT ${shuffled_timeout} COST 1000 ${properties})
endfunction()

# oncebox_add_compile_errors(<name> HEADER <file> SOURCES <file>...)
#
# Compiles each source as the ctest test <prefix><name>.<source>, which fails unless the compiler
# says what stands above the source, "// error: …", and nothing else; without such a comment it has
# to compile. HEADER is what all of them include, and compiled once. Not in sanitizer builds.
function(oncebox_add_compile_errors name)
  if(NOT ONCEBOX_BUILD_TESTS OR NOT ONCEBOX_SANITIZE STREQUAL "")
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADER" "SOURCES")
  _oncebox_require_parsed(oncebox_add_compile_errors "${arg_UNPARSED_ARGUMENTS}")

  # The compiler takes the precompiled form of an included file from beside it.
  set(header "${CMAKE_CURRENT_BINARY_DIR}/${name}/header.hpp")
  file(CONFIGURE OUTPUT "${header}" CONTENT "#include \"${arg_HEADER}\"\n")
  set(compile "${CMAKE_CXX_COMPILER}" -std=c++20 -I "${CMAKE_CURRENT_SOURCE_DIR}/include")
  set(prefix "${ONCEBOX_TEST_PREFIX}${name}")
  add_test(NAME ${prefix}.header
    COMMAND ${compile} -x c++-header "${header}" -o "${header}.gch")
  set_tests_properties(${prefix}.header PROPERTIES TIMEOUT 120 FIXTURES_SETUP ${prefix}.header)
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source STEM stem)
    add_test(NAME ${prefix}.${stem}
      COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${CMAKE_CURRENT_SOURCE_DIR}/${source}"
        -P "${PROJECT_SOURCE_DIR}/cmake/expect_compile_error.cmake"
        -- ${compile} -fsyntax-only -include "${header}")
    set_tests_properties(${prefix}.${stem} PROPERTIES
      TIMEOUT 120 FIXTURES_REQUIRED ${prefix}.header)
  endforeach()
endfunction()

# oncebox_add_postgresql_fixture(<name> [BIN <folder of the server's programs>])
#
# Adds the ctest tests <prefix><name>.start and .stop, which ctest runs before and after the tests
# that need this server, also when only some of them run.
function(oncebox_add_postgresql_fixture name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BIN" "")
  _oncebox_require_parsed(oncebox_add_postgresql_fixture "${arg_UNPARSED_ARGUMENTS}")
  set(fixture "${ONCEBOX_TEST_PREFIX}${name}")
  foreach(order start stop)
    add_test(NAME ${fixture}.${order}
      COMMAND postgresql_fixture ${order} "${PROJECT_BINARY_DIR}/servers/${name}")
  endforeach()
  set_tests_properties(${fixture}.start PROPERTIES FIXTURES_SETUP ${fixture} TIMEOUT 120)
  set_tests_properties(${fixture}.stop PROPERTIES FIXTURES_CLEANUP ${fixture} TIMEOUT 120)
  if(arg_BIN)
    set_tests_properties(${fixture}.start PROPERTIES
      ENVIRONMENT "ONCEBOX_POSTGRESQL_BIN=${arg_BIN}")
  endif()
endfunction()

# The properties of a test that needs the fixture of this name.
function(_oncebox_postgresql_properties fixture result)
  set(${result}
    FIXTURES_REQUIRED "${ONCEBOX_TEST_PREFIX}${fixture}"
    ENVIRONMENT "ONCEBOX_TEST_POSTGRESQL=${PROJECT_BINARY_DIR}/servers/${fixture}/url"
    PARENT_SCOPE)
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

# oncebox_add_example(<name> SOURCES <file>... [LINK <target>...] [ANY_STORE])
#
# Adds the executable example_<name> and runs it as the ctest test example.<name>, which fails
# unless it prints what stands in <name>.out beside it. With ANY_STORE it takes the URL of a store,
# and example.<name>.postgresql runs it on PostgreSQL too.
function(oncebox_add_example name)
  if(NOT ONCEBOX_BUILD_EXAMPLES)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "ANY_STORE" "" "SOURCES;LINK")
  _oncebox_require_parsed(oncebox_add_example "${arg_UNPARSED_ARGUMENTS}")

  set(target example_${name})
  add_executable(${target} ${arg_SOURCES})
  oncebox_program_defaults(${target})
  target_link_libraries(${target} PRIVATE ${arg_LINK})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  set(test "${ONCEBOX_TEST_PREFIX}example.${name}")
  set(run "${CMAKE_COMMAND}"
    -D "PROGRAM=$<TARGET_FILE:${target}>"
    -D "EXPECTED=${CMAKE_CURRENT_SOURCE_DIR}/${name}.out")
  set(script -P "${PROJECT_SOURCE_DIR}/cmake/run_and_compare.cmake")
  add_test(NAME ${test} COMMAND ${run} ${script})
  set_tests_properties(${test} PROPERTIES TIMEOUT 60)
  if(arg_ANY_STORE AND ONCEBOX_WITH_POSTGRESQL AND TARGET postgresql_fixture)
    add_test(NAME ${test}.postgresql
      COMMAND ${run}
        -D "POSTGRESQL=${PROJECT_BINARY_DIR}/servers/postgresql/url"
        -D "SCHEMA=example_${name}"
        ${script})
    _oncebox_postgresql_properties(postgresql properties)
    set_tests_properties(${test}.postgresql PROPERTIES TIMEOUT 60 ${properties})
  endif()
endfunction()
