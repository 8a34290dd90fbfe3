# SPDX-License-Identifier: Apache-2.0
# abi.cmake : descriptions of the public structs for other languages, made from the headers by abi.awk: ESSCHER_LAYOUT.
#
# The C file is made by every build. The module of the Python package is in the repository, because the package is also
# used and installed without a build (ESSCHER_PREBUILT=system); the target python_abi makes it anew after a header has
# changed, and the test abi fails until that is done.
find_program(AWK awk REQUIRED)
file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/esscher/*.h)
set(abi ${CMAKE_SOURCE_DIR}/cmake/abi.awk)

set(ESSCHER_LAYOUT ${CMAKE_BINARY_DIR}/layout.c)
add_custom_command(OUTPUT ${ESSCHER_LAYOUT}
                   COMMAND ${AWK} -v form=c -f ${abi} ${headers} > ${ESSCHER_LAYOUT}.new
                   COMMAND ${CMAKE_COMMAND} -E rename ${ESSCHER_LAYOUT}.new ${ESSCHER_LAYOUT}
                   DEPENDS ${abi} ${headers} VERBATIM)
add_custom_target(python_abi
                  COMMAND ${AWK} -v form=python -f ${abi} ${headers} > ${CMAKE_BINARY_DIR}/_abi.py
                  COMMAND ${CMAKE_COMMAND} -E copy_if_different ${CMAKE_BINARY_DIR}/_abi.py
                          ${CMAKE_SOURCE_DIR}/python/esscher/_abi.py VERBATIM)
