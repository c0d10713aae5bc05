# Language level, warnings, sanitizers, and ccache.

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(ONCEBOX_CCACHE ccache)
  mark_as_advanced(ONCEBOX_CCACHE)
  if(ONCEBOX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${ONCEBOX_CCACHE}")
    if(ONCEBOX_PRECOMPILE_HEADERS)
      # Else it passes on everything that uses a precompiled header.
      list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros)
    endif()
  endif()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(ONCEBOX_SANITIZE STREQUAL "address")
  set(_oncebox_sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(ONCEBOX_SANITIZE STREQUAL "thread")
  set(_oncebox_sanitize -fsanitize=thread)
elseif(NOT ONCEBOX_SANITIZE STREQUAL "")
  message(FATAL_ERROR
    "ONCEBOX_SANITIZE is \"${ONCEBOX_SANITIZE}\"; use \"address\", \"thread\" or leave it empty.")
endif()
if(_oncebox_sanitize)
  add_compile_options(${_oncebox_sanitize} -fno-omit-frame-pointer)
  add_link_options(${_oncebox_sanitize})
endif()
if(ONCEBOX_SANITIZE STREQUAL "thread")
  # The static run-time library defines operator new strongly, so that no test could replace it.
  execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-resource-dir
    OUTPUT_VARIABLE _oncebox_resources OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  add_link_options(-shared-libsan "-Wl,-rpath,${_oncebox_resources}/lib/linux")
endif()

# The test programs have up to 100 MB; this linker needs a fifth of the time for them.
if(PROJECT_IS_TOP_LEVEL AND CMAKE_BUILD_TYPE STREQUAL "Debug")
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold ONCEBOX_HAS_MOLD)
  if(ONCEBOX_HAS_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

if(ONCEBOX_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()

# Gives a target of this project the warnings that all of its code is held to.
function(oncebox_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE
    -Wall
    -Wextra
    -Wpedantic
    -Wcast-align
    -Wconversion
    -Wextra-semi
    -Wnon-virtual-dtor
    -Wold-style-cast
    -Woverloaded-virtual
    -Wshadow
    -Wsign-conversion
    -Wswitch-enum
    -Wunused
    # A field left out of a designated initialiser takes its default: that is how options are used.
    -Wno-missing-field-initializers
    $<$<BOOL:${ONCEBOX_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Holds the code to what oncebox/detail/mutex.hpp says of locks.
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE
      -Wduplicated-branches
      -Wduplicated-cond
      -Wlogical-op
      # False alarm on an empty std::optional<std::string> at -O3 (GCC bug 80635).
      -Wno-maybe-uninitialized
      # False alarm on std::string in g++ 12 (GCC bug 105651).
      $<$<VERSION_LESS:${CMAKE_CXX_COMPILER_VERSION},13>:-Wno-restrict>
      # Takes every file of a unity build for a header.
      $<$<BOOL:${CMAKE_UNITY_BUILD}>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Examples and benchmarks: in a Debug build nobody measures them, so they compile as test code does.
function(oncebox_program_defaults target)
  oncebox_target_defaults(${target})
  _oncebox_for_executables(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O0>)
endfunction()

# Test code is compiled far more often than it is run: without optimisation it takes half the time.
function(oncebox_test_defaults target)
  oncebox_target_defaults(${target})
  _oncebox_for_executables(${target})
  target_compile_options(${target} PRIVATE -O0 -g1)
endfunction()

# All of it ends in executables. Equal flags let an OBJECT library and an executable share a
# precompiled header; CMake's own would differ.
function(_oncebox_for_executables target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIE)
endfunction()
