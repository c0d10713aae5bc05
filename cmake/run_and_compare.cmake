# Runs PROGRAM and fails unless it succeeds and prints exactly what stands in the file EXPECTED.

execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ "${EXPECTED}" expected)
if(NOT "${printed}" STREQUAL "${expected}")
  message(FATAL_ERROR "expected, by ${EXPECTED}:\n${expected}\nbut it prints:\n${printed}")
endif()
