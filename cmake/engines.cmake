# SPDX-License-Identifier: Apache-2.0
# engines.cmake : Python that plans are exported with, from src/engines/*.py to the C file ESSCHER_ENGINES.
#
# As a script (-DOUT=engines.c -DFOLDER=src/engines) it makes the file: an array es_engine_NAME_py for each NAME.py, ended by
# a NUL.
if(DEFINED OUT)
  file(GLOB files "${FOLDER}/*.py")
  list(SORT files)
  file(WRITE "${OUT}.new" "/* Made from src/engines/ by cmake/engines.cmake. */\n#include \"engines/engine.h\"\n")
  foreach(file ${files})
    get_filename_component(name "${file}" NAME_WE)
    file(READ "${file}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    file(APPEND "${OUT}.new" "\nconst char es_engine_${name}_py[] = {${bytes}0};\n")
  endforeach()
  file(RENAME "${OUT}.new" "${OUT}")
  return()
endif()
file(GLOB engine_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/engines/*.py)
set(ESSCHER_ENGINES ${CMAKE_BINARY_DIR}/engines.c)
add_custom_command(OUTPUT ${ESSCHER_ENGINES}
                   COMMAND ${CMAKE_COMMAND} -DOUT=${ESSCHER_ENGINES} -DFOLDER=${CMAKE_SOURCE_DIR}/src/engines
                           -P ${CMAKE_SOURCE_DIR}/cmake/engines.cmake
                   DEPENDS ${engine_files} ${CMAKE_SOURCE_DIR}/cmake/engines.cmake VERBATIM)
