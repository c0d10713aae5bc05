# Every switch a builder can turn. Defaults suit a packager; developers use CMakePresets.json.

option(ONCEBOX_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(ONCEBOX_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(ONCEBOX_BUILD_BENCHMARKS "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(ONCEBOX_WITH_TESTING "Build oncebox::testing, with the fake clock" ON)
option(ONCEBOX_INSTALL "Generate install rules" ${PROJECT_IS_TOP_LEVEL})
option(ONCEBOX_WERROR "Treat compiler warnings as errors" OFF)
option(ONCEBOX_PRECOMPILE_HEADERS "Precompile the headers of other libraries" OFF)
option(ONCEBOX_COVERAGE "Instrument for coverage (gcov)" OFF)

set(ONCEBOX_SANITIZE "" CACHE STRING "Sanitizers: empty, address (with undefined) or thread")
set_property(CACHE ONCEBOX_SANITIZE PROPERTY STRINGS "" address thread)

set(ONCEBOX_TESTS "all" CACHE STRING
  "Tests of a build without sanitizers: all, or left_out for those that no sanitizer build runs")
set_property(CACHE ONCEBOX_TESTS PROPERTY STRINGS all left_out)
if(NOT ONCEBOX_SANITIZE STREQUAL "")
  set(ONCEBOX_TESTS all)
endif()

set(ONCEBOX_TEST_PREFIX "" CACHE STRING
  "Put before every ctest name, so that several build trees can be tested in one run")

set(ONCEBOX_POSTGRESQL_BIN "" CACHE PATH
  "Programs of the PostgreSQL server that tests use (tools/fetch_postgresql.sh), or the system's")

# A backend with a client library of its own has one option here, ONCEBOX_WITH_<BACKEND>; the root
# CMakeLists.txt adds its folder and stores/open registers it. The memory store needs nothing and
# is always built.
option(ONCEBOX_WITH_SQLITE "Build the SQLite store" ON)
option(ONCEBOX_WITH_POSTGRESQL "Build the PostgreSQL store" ON)
option(ONCEBOX_WITH_HTTP "Build the store behind a server, over HTTP" ON)

# The same for a transport.
option(ONCEBOX_WITH_WEBHOOK "Build the publisher that posts webhooks" ON)

option(ONCEBOX_WITH_PROMETHEUS "Build the metrics for Prometheus" ON)
option(ONCEBOX_WITH_OTLP "Build the exporter of traces for OpenTelemetry collectors" ON)
option(ONCEBOX_WITH_DISCOVERY "Build the lists of stores in files that are watched" ON)
option(ONCEBOX_BUILD_SERVER "Build the server and the command-line tool" ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
