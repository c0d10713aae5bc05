# Runs PROGRAM and fails unless it succeeds and prints exactly what stands in the file EXPECTED.
# With the file of a PostgreSQL server's URL, POSTGRESQL, it is given that URL and a SCHEMA of its
# own.

set(arguments "")
if(POSTGRESQL)
  file(STRINGS "${POSTGRESQL}" url LIMIT_COUNT 1)
  set(arguments "${url}?schema=${SCHEMA}&schema_deployment=on")
endif()
execute_process(COMMAND "${PROGRAM}" ${arguments}
  OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ "${EXPECTED}" expected)
if(NOT "${printed}" STREQUAL "${expected}")
  message(FATAL_ERROR "expected, by ${EXPECTED}:\n${expected}\nbut it prints:\n${printed}")
endif()
