if(ONCEBOX_BUILD_TESTS)
  include(GoogleTest)
endif()

# What the tests of several modules share.
set(ONCEBOX_TEST_SUPPORT "${PROJECT_SOURCE_DIR}/tests/support")

# oncebox_add_test(<name> SOURCES <file>... [LINK <target>...] [TIMEOUT <seconds>]
#   [SHARDS <count> | EACH_ALONE] [NEEDS_POSTGRESQL]
#   [FILTER <filter>] [NOT_SANITIZED <tests>] [NOT_WITH_TSAN <tests>])
#
# Adds the GoogleTest executable test_<name> and the ctest test <prefix><name>, which runs its tests
# in one process and in random order: that is quick, and finds tests that lean on each other. SHARDS
# splits them among several ctest tests, <prefix><name>.1 and so on, for what takes long. EACH_ALONE
# makes each a ctest test of its own, <prefix><name>.<Suite>.<Test>, for what has servers and
# processes of its own. Without a target test_<name> the program is not part of this build
# (OnceboxTestBuilds.cmake).
#
# NEEDS_POSTGRESQL starts a server before them, for shared_postgresql_url() in oncebox::testing.
# It is the one of ONCEBOX_POSTGRESQL_BIN, or the system's.
#
# FILTER names the tests that are run (as --gtest_filter does) where not all of them are worth their
# time. A sanitizer build runs all of these but those that match NOT_SANITIZED, and with
# ThreadSanitizer but those of NOT_WITH_TSAN: patterns of names, with a colon between them. So a new
# test is run unless somebody decides otherwise.
function(oncebox_add_test name)
  if(NOT ONCEBOX_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg
    "EACH_ALONE;NEEDS_POSTGRESQL"
    "TIMEOUT;SHARDS;FILTER;NOT_SANITIZED;NOT_WITH_TSAN" "SOURCES;LINK")
  _oncebox_require_parsed(oncebox_add_test "${arg_UNPARSED_ARGUMENTS}")
  _oncebox_runs_here(${name} "${arg_NOT_SANITIZED}" runs_here)
  if(NOT runs_here)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()

  set(target test_${name})
  add_executable(${target} ${arg_SOURCES})
  oncebox_test_defaults(${target})
  target_include_directories(${target} PRIVATE "${ONCEBOX_TEST_SUPPORT}")
  if(IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/src")
    target_include_directories(${target} PRIVATE src)
  endif()
  # Tests may include what their module includes: so they have the internal headers, too.
  target_link_libraries(${target} PRIVATE ${arg_LINK} oncebox::engine GTest::gtest_main)
  oncebox_reuse_precompiled(${target} test)

  set(filter "${arg_FILTER}")
  if(ONCEBOX_SANITIZE)
    set(except ${arg_NOT_SANITIZED})
    if(ONCEBOX_SANITIZE STREQUAL "thread")
      list(APPEND except ${arg_NOT_WITH_TSAN})
    endif()
    if(except)
      list(JOIN except ":" except)
      # What stands after the first "-" is left out.
      string(FIND "${filter}" "-" minus)
      if(minus EQUAL -1)
        string(APPEND filter "-${except}")
      else()
        string(APPEND filter ":${except}")
      endif()
    endif()
  elseif(ONCEBOX_TESTS STREQUAL "left_out" AND NOT arg_FILTER)
    set(filter "${arg_NOT_SANITIZED}")
  endif()
  if(name IN_LIST _oncebox_tests_without_threads)
    target_link_libraries(${target} PRIVATE oncebox_no_threads)
  endif()
  # What may take the longest begins first.
  set(properties TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT})
  if(arg_NEEDS_POSTGRESQL)
    _oncebox_postgresql_properties(postgresql_properties)
    list(APPEND properties ${postgresql_properties})
    add_dependencies(${target} postgresql_fixture)
  endif()
  if(arg_EACH_ALONE)
    # Their processes keep the machine busy: beside others all of them would only be late. Three is
    # what ./dev runs at once on two processors.
    gtest_discover_tests(${target}
      TEST_PREFIX "${ONCEBOX_TEST_PREFIX}${name}."
      DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 60
      TEST_FILTER "${filter}"
      PROPERTIES ${properties} PROCESSORS 3)
  else()
    _oncebox_add_shards(${name} ${name} ${arg_SHARDS} "${filter}" "${properties}")
  endif()
endfunction()

# The ctest tests <prefix><test>, or <prefix><test>.1 to .<shards>, which run test_<name>.
function(_oncebox_add_shards test name shards filter properties)
  foreach(number RANGE 1 ${shards})
    set(shard "${ONCEBOX_TEST_PREFIX}${test}")
    if(shards GREATER 1)
      string(APPEND shard ".${number}")
    endif()
    set(command test_${name} --gtest_shuffle --gtest_brief=1)
    if(filter)
      list(APPEND command "--gtest_filter=${filter}")
    endif()
    add_test(NAME ${shard} COMMAND ${command})
    set_tests_properties(${shard} PROPERTIES ${properties})
    if(shards GREATER 1)
      math(EXPR index "${number} - 1")
      set_property(TEST ${shard} APPEND PROPERTY ENVIRONMENT
        "GTEST_TOTAL_SHARDS=${shards}" "GTEST_SHARD_INDEX=${index}")
    endif()
  endforeach()
endfunction()

# oncebox_add_compile_errors(<name> HEADER <file> MODULE <target> SOURCES <file>...)
#
# Compiles each source as the ctest test <prefix><name>.<source>, which fails unless the compiler
# says what stands above the source, "// error: …", and nothing else; without such a comment it has
# to compile. HEADER, a header of MODULE, is what all of them include, and compiled once. Not in
# sanitizer builds.
function(oncebox_add_compile_errors name)
  if(NOT ONCEBOX_BUILD_TESTS OR NOT ONCEBOX_SANITIZE STREQUAL "")
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADER;MODULE" "SOURCES")
  _oncebox_require_parsed(oncebox_add_compile_errors "${arg_UNPARSED_ARGUMENTS}")

  # The compiler takes the precompiled form of an included file from beside it.
  set(header "${CMAKE_CURRENT_BINARY_DIR}/${name}/header.hpp")
  file(CONFIGURE OUTPUT "${header}" CONTENT "#include \"${arg_HEADER}\"\n")
  set(folders "$<TARGET_PROPERTY:${arg_MODULE},INCLUDE_DIRECTORIES>")
  set(compile "${CMAKE_CXX_COMPILER}" -std=c++20 "-I$<JOIN:${folders},$<SEMICOLON>-I>")
  set(prefix "${ONCEBOX_TEST_PREFIX}${name}")
  add_test(NAME ${prefix}.header
    COMMAND ${compile} -x c++-header "${header}" -o "${header}.gch"
    COMMAND_EXPAND_LISTS)
  set_tests_properties(${prefix}.header PROPERTIES TIMEOUT 120 FIXTURES_SETUP ${prefix}.header)
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source STEM stem)
    add_test(NAME ${prefix}.${stem}
      COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${CMAKE_CURRENT_SOURCE_DIR}/${source}"
        -P "${PROJECT_SOURCE_DIR}/cmake/expect_compile_error.cmake"
        -- ${compile} -fsyntax-only -include "${header}"
      COMMAND_EXPAND_LISTS)
    set_tests_properties(${prefix}.${stem} PROPERTIES
      TIMEOUT 120 FIXTURES_REQUIRED ${prefix}.header)
  endforeach()
endfunction()

# oncebox_add_postgresql_fixture()
#
# Adds the ctest tests <prefix>postgresql.start and .stop, which ctest runs before and after the
# tests that need this server, also when only some of them run.
function(oncebox_add_postgresql_fixture)
  set(fixture "${ONCEBOX_TEST_PREFIX}postgresql")
  foreach(order start stop)
    add_test(NAME ${fixture}.${order}
      COMMAND postgresql_fixture ${order} "${PROJECT_BINARY_DIR}/servers/postgresql")
  endforeach()
  _oncebox_postgresql_programs(programs)
  set_tests_properties(${fixture}.start PROPERTIES
    FIXTURES_SETUP ${fixture} TIMEOUT 300 ${programs})
  set_tests_properties(${fixture}.stop PROPERTIES FIXTURES_CLEANUP ${fixture} TIMEOUT 300)
endfunction()

# The properties of a test that starts servers.
function(_oncebox_postgresql_programs result)
  set(properties "")
  if(ONCEBOX_POSTGRESQL_BIN)
    set(properties
      ENVIRONMENT_MODIFICATION "ONCEBOX_POSTGRESQL_BIN=set:${ONCEBOX_POSTGRESQL_BIN}")
  endif()
  set(${result} ${properties} PARENT_SCOPE)
endfunction()

# The properties of a test that needs the fixture.
function(_oncebox_postgresql_properties result)
  _oncebox_postgresql_programs(programs)
  set(${result}
    FIXTURES_REQUIRED "${ONCEBOX_TEST_PREFIX}postgresql"
    ENVIRONMENT "ONCEBOX_TEST_POSTGRESQL=${PROJECT_BINARY_DIR}/servers/postgresql/url"
    ${programs}
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
  oncebox_reuse_precompiled(${target} program)
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/benchmarks")
endfunction()

# oncebox_add_example(<name> SOURCES <file>... [LINK <target>...] [ANY_STORE | NEEDS_POSTGRESQL])
#
# Adds the executable example_<name> and runs it as the ctest test example.<name>, which fails
# unless it prints what stands in <name>.out beside it. With ANY_STORE it takes the URL of a store,
# and example.<name>.postgresql runs it on PostgreSQL too. With NEEDS_POSTGRESQL it asks
# shared_postgresql_url(), as a test does.
function(oncebox_add_example name)
  if(NOT ONCEBOX_BUILD_EXAMPLES)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "ANY_STORE;NEEDS_POSTGRESQL" "" "SOURCES;LINK")
  _oncebox_require_parsed(oncebox_add_example "${arg_UNPARSED_ARGUMENTS}")

  set(target example_${name})
  add_executable(${target} ${arg_SOURCES})
  oncebox_program_defaults(${target})
  target_link_libraries(${target} PRIVATE ${arg_LINK})
  oncebox_reuse_precompiled(${target} program)
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  set(test "${ONCEBOX_TEST_PREFIX}example.${name}")
  set(run "${CMAKE_COMMAND}"
    -D "PROGRAM=$<TARGET_FILE:${target}>"
    -D "EXPECTED=${CMAKE_CURRENT_SOURCE_DIR}/${name}.out")
  set(script -P "${PROJECT_SOURCE_DIR}/cmake/run_and_compare.cmake")
  add_test(NAME ${test} COMMAND ${run} ${script})
  set_tests_properties(${test} PROPERTIES TIMEOUT 300)
  if(arg_NEEDS_POSTGRESQL AND TARGET postgresql_fixture)
    _oncebox_postgresql_properties(properties)
    set_tests_properties(${test} PROPERTIES ${properties})
  endif()
  if(arg_ANY_STORE AND ONCEBOX_WITH_POSTGRESQL AND TARGET postgresql_fixture)
    add_test(NAME ${test}.postgresql
      COMMAND ${run}
        -D "POSTGRESQL=${PROJECT_BINARY_DIR}/servers/postgresql/url"
        -D "SCHEMA=example_${name}"
        ${script})
    _oncebox_postgresql_properties(properties)
    set_tests_properties(${test}.postgresql PROPERTIES TIMEOUT 300 ${properties})
  endif()
endfunction()
