# Which build runs which test program. docs/decisions/0014-where-tests-run.md has the reasons.
#
# A program runs whole with ASan and UBSan, and with ThreadSanitizer. The exceptions are the
# programs in the two lists below, and single tests, which oncebox_add_test() names. So a new
# program or test is run by both unless somebody decides otherwise here. The plain build has every
# program, or with ONCEBOX_TESTS=left_out only what the sanitizer builds leave out.

# <program> <what it is about>: not with ThreadSanitizer, because it has no threads. In the other
# builds such a program fails when it starts one.
set(_oncebox_tests_without_threads
  cli "values, options and texts of the command line"
  fuzz_seeds "JSON that the fuzzer begins with"
  simulation "many actors, which take turns on one thread"
  sql "the codec of rows"
  wire "JSON in and out")

# <program> <why>: not with a sanitizer.
set(_oncebox_plain_tests
  crash "kills processes between two calls of the kernel, by strace"
  effects "kills processes between the steps of a transaction, and of publishing"
  remote_stores "tests that the programs of their modules run, on other stores"
  server_keys_postgresql "tests that server_api runs, on another store"
  server_memory "measures memory, of which a sanitizer takes some for itself"
  testing "is about programs of others")

# Sets `result` to whether the test program runs in this build. `not_sanitized`: patterns of its
# tests that the sanitizer builds leave out.
function(_oncebox_runs_here name not_sanitized result)
  set_property(GLOBAL APPEND PROPERTY ONCEBOX_TEST_PROGRAMS ${name})
  set(elsewhere "")
  if(ONCEBOX_TESTS STREQUAL "left_out" AND NOT not_sanitized
      AND NOT name IN_LIST _oncebox_plain_tests)
    list(APPEND elsewhere ${name})
  endif()
  if(ONCEBOX_SANITIZE)
    list(APPEND elsewhere ${_oncebox_plain_tests})
  endif()
  if(ONCEBOX_SANITIZE STREQUAL "thread")
    list(APPEND elsewhere ${_oncebox_tests_without_threads})
  endif()
  if(name IN_LIST elsewhere)
    set(${result} FALSE PARENT_SCOPE)
  else()
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# oncebox_check_test_builds()
#
# In a sanitizer build, fails if a program of the lists is not there, or if a CMakeLists.txt adds a
# program that was not reached: an if() around it would keep it from the sanitizer unseen.
function(oncebox_check_test_builds)
  get_property(reached GLOBAL PROPERTY ONCEBOX_TEST_PROGRAMS)
  if(ONCEBOX_SANITIZE STREQUAL "")
    return()
  endif()
  set(listed ${_oncebox_tests_without_threads} ${_oncebox_plain_tests})
  while(listed)
    list(POP_FRONT listed name reason)
    if(NOT name IN_LIST reached)
      message(FATAL_ERROR
        "cmake/OnceboxTestBuilds.cmake names the test program \"${name}\", which there is not.")
    endif()
  endwhile()

  file(GLOB_RECURSE listings "${PROJECT_SOURCE_DIR}/*/CMakeLists.txt")
  list(FILTER listings EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/build/")
  foreach(listing IN LISTS listings)
    file(STRINGS "${listing}" calls REGEX "^ *oncebox_add_test\\(")
    foreach(call IN LISTS calls)
      string(REGEX REPLACE "^ *oncebox_add_test\\(([a-z0-9_]+).*" "\\1" name "${call}")
      if(NOT name IN_LIST reached)
        message(FATAL_ERROR
          "${listing} keeps the test program \"${name}\" from the sanitizers: let every build "
          "reach it, and if it has no threads name it in cmake/OnceboxTestBuilds.cmake.")
      endif()
    endforeach()
  endforeach()
endfunction()
