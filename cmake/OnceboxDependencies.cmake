include(CMakeFindDependencyMacro)

# oncebox_find_dependency(<package> [arguments of find_package])
#
# Finds a library that our libraries link, here and again in the installed package: a consumer of
# the static libraries has to link it too.
macro(oncebox_find_dependency)
  find_package(${ARGV} REQUIRED)
  string(REPLACE ";" " " _oncebox_dependency "${ARGV}")
  set_property(GLOBAL APPEND_STRING PROPERTY ONCEBOX_FIND_DEPENDENCIES
    "find_dependency(${_oncebox_dependency})\n")
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
oncebox_find_dependency(Threads)
oncebox_find_dependency(OpenSSL 3.0)
oncebox_find_dependency(fmt 9.1 CONFIG)
if(ONCEBOX_WITH_SQLITE)
  oncebox_find_dependency(SQLite3 3.37)
endif()
if(ONCEBOX_WITH_POSTGRESQL)
  oncebox_find_dependency(PostgreSQL 14)
endif()
if(ONCEBOX_WITH_HTTP OR ONCEBOX_WITH_WEBHOOK OR ONCEBOX_WITH_OTLP OR ONCEBOX_BUILD_SERVER)
  oncebox_find_dependency(CURL 7.88)
endif()
if(ONCEBOX_WITH_PROMETHEUS OR ONCEBOX_BUILD_SERVER)
  oncebox_find_dependency(prometheus-cpp CONFIG)
endif()
if(ONCEBOX_BUILD_SERVER)
  find_package(CLI11 2.1 CONFIG REQUIRED)
endif()
if(ONCEBOX_WITH_DISCOVERY OR ONCEBOX_BUILD_SERVER)
  find_package(tomlplusplus 3.3 CONFIG REQUIRED)
endif()

# Header-only, included by sources only: a consumer needs neither.
find_package(Boost 1.81 CONFIG REQUIRED)
find_package(date CONFIG REQUIRED)

if(ONCEBOX_BUILD_TESTS)
  find_package(nlohmann_json 3.10 CONFIG REQUIRED)
  find_package(GTest 1.12 CONFIG REQUIRED)
  find_package(rapidcheck CONFIG REQUIRED)
  find_package(Python3 3.9 COMPONENTS Interpreter REQUIRED)
  # For scripts with packages of tools/packages.txt: another Python may be first in PATH, and not
  # have them.
  find_program(ONCEBOX_SYSTEM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
  if(NOT ONCEBOX_SYSTEM_PYTHON)
    set(ONCEBOX_SYSTEM_PYTHON "${Python3_EXECUTABLE}")
  endif()
  mark_as_advanced(ONCEBOX_SYSTEM_PYTHON)
endif()
