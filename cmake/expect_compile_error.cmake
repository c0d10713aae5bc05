# cmake -D SOURCE=<file> -P expect_compile_error.cmake -- <compiler> <argument>...
#
# Compiles SOURCE, and fails unless the one error is what the comment above it says: "// error: …".
# A source whose comment says nothing of the kind has to compile.

set(compile "")
set(is_command FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(is_command)
    list(APPEND compile "${CMAKE_ARGV${i}}")
  elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
    set(is_command TRUE)
  endif()
endforeach()
execute_process(COMMAND ${compile} "${SOURCE}"
  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)

file(READ "${SOURCE}" comment)
string(REGEX REPLACE "\n\n.*" "" comment "${comment}")
string(REPLACE "\n// " " " comment "${comment}")
if(NOT comment MATCHES "^// error: (.+)$")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${SOURCE} does not compile:\n${said}")
  endif()
  return()
endif()
set(expected "${CMAKE_MATCH_1}")

string(REGEX MATCHALL " error: " errors "${said}")
list(LENGTH errors count)
string(FIND "${said}" "${expected}" found)
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but should not: ${expected}")
elseif(found EQUAL -1 OR NOT count EQUAL 1)
  message(FATAL_ERROR "expected one error, \"${expected}\", but the compiler says:\n${said}")
endif()
