# SPDX-License-Identifier: Apache-2.0
# mpi.cmake : one plugin per MPI that is found, libesscher-mpi-openmpi.so and libesscher-mpi-mpich.so, and libesscher-mpi.so
# for the first of them. Neither the library nor the program is linked with MPI: es_fabric_load() looks for these files. They
# are no libraries to link with, and so are installed in a folder of their own.
#
# ESSCHER_MPIS is the list of those found: openmpi, mpich, or mpi for one that only CMake's own FindMPI knows.
set(ESSCHER_MPIS "")
if(ESSCHER_MPI AND NOT CMAKE_SYSTEM_NAME STREQUAL "Linux") # docs/dev/PORTING.md says what is missing there
  if(ESSCHER_MPI STREQUAL "ON")
    message(FATAL_ERROR "ESSCHER_MPI=ON, but the plugins are written for Linux")
  endif()
elseif(ESSCHER_MPI)
  find_package(Threads REQUIRED)
  pkg_check_modules(OPENMPI IMPORTED_TARGET ompi-c)
  pkg_check_modules(MPICH IMPORTED_TARGET mpich)
  if(OPENMPI_FOUND)
    list(APPEND ESSCHER_MPIS openmpi)
  endif()
  if(MPICH_FOUND)
    list(APPEND ESSCHER_MPIS mpich)
    # mpich.pc may name libraries that MPICH itself uses and that no -dev package brings (Ubuntu 26.10: ucc, ze_loader):
    # link with MPICH alone.
    find_library(ESSCHER_MPICH_LIBRARY mpich HINTS ${MPICH_LIBRARY_DIRS} REQUIRED)
    set_target_properties(PkgConfig::MPICH PROPERTIES INTERFACE_LINK_LIBRARIES ${ESSCHER_MPICH_LIBRARY})
  endif()
  if(NOT ESSCHER_MPIS)
    find_package(MPI COMPONENTS C)
    if(MPI_C_FOUND)
      set(ESSCHER_MPIS mpi)
    endif()
  endif()
  if(NOT ESSCHER_MPIS AND ESSCHER_MPI STREQUAL "ON")
    message(FATAL_ERROR "ESSCHER_MPI=ON, but there is no MPI (Debian packages libopenmpi-dev, libmpich-dev)")
  endif()
endif()

file(GLOB ESSCHER_MPI_SOURCES CONFIGURE_DEPENDS src/mpi/*.c)
foreach(mpi ${ESSCHER_MPIS})
  string(TOUPPER ${mpi} MPI_NAME)
  set(plugin esscher-mpi-${mpi})
  set(through PkgConfig::${MPI_NAME})
  if(mpi STREQUAL "mpi")
    set(plugin esscher-mpi)
    set(through MPI::MPI_C)
  endif()
  # Failures are filled by the library's own function, compiled in; one symbol leaves.
  add_library(${plugin} MODULE ${ESSCHER_MPI_SOURCES} src/base/error.c)
  target_include_directories(${plugin} PRIVATE include src)
  target_link_libraries(${plugin} PRIVATE esscher_flags ${through} Threads::Threads m)
  target_link_options(${plugin} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/mpi/exports.map)
  set_target_properties(${plugin} PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/src/mpi/exports.map
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON) # an MPI of /opt is found again
  install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/esscher)
endforeach()

# The plain name is the first one's.
if(ESSCHER_MPIS AND NOT ESSCHER_MPIS STREQUAL "mpi")
  list(GET ESSCHER_MPIS 0 mpi)
  add_custom_target(esscher-mpi-plain ALL DEPENDS esscher-mpi-${mpi} VERBATIM COMMAND ${CMAKE_COMMAND} -E
                    create_symlink libesscher-mpi-${mpi}.so ${CMAKE_BINARY_DIR}/libesscher-mpi.so)
  install(FILES ${CMAKE_BINARY_DIR}/libesscher-mpi.so DESTINATION ${CMAKE_INSTALL_LIBDIR}/esscher)
endif()
