# Installs a build tree into an empty prefix, then configures, builds and runs a program that finds
# it with find_package; and asks for a component that does not exist.
#
#   cmake -D BUILD_TREE=... -D WORK_DIR=... -D GENERATOR=... -D CXX_COMPILER=... -P <this file>

cmake_minimum_required(VERSION 3.25)

set(prefix "${WORK_DIR}/prefix")
set(configure_consumer
  "${CMAKE_COMMAND}"
  -S "${CMAKE_CURRENT_LIST_DIR}/consumer"
  -G "${GENERATOR}"
  -D "CMAKE_CXX_COMPILER=${CXX_COMPILER}"
  -D "CMAKE_PREFIX_PATH=${prefix}")

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_TREE}" --prefix "${prefix}")
run(${configure_consumer} -B "${WORK_DIR}/consumer")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/consumer")
run("${WORK_DIR}/consumer/consumer")

execute_process(
  COMMAND ${configure_consumer} -B "${WORK_DIR}/refused"
    -D ONCEBOX_CONSUMER_COMPONENTS=imaginary
  RESULT_VARIABLE result
  ERROR_VARIABLE message
  OUTPUT_QUIET)
if(result EQUAL 0 OR NOT message MATCHES "oncebox was built without[ \n]+\"imaginary\"")
  message(FATAL_ERROR "asking for a component that does not exist should say so, but:\n${message}")
endif()
