# SPDX-License-Identifier: Apache-2.0
# static.cmake : ESSCHER_STATIC, a program that is one file. Everything is taken from archives (.a), which Debian has of all
# that we link. Such a program can load nothing at run time, so there are no MPI plugins.
if(ESSCHER_STATIC)
  set(BUILD_SHARED_LIBS OFF)
  set(ESSCHER_MPI OFF)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set_source_files_properties(src/ranks/fabric_load.c PROPERTIES COMPILE_DEFINITIONS ES_NO_PLUGINS)
  # These archives call each other and the Fortran run-time library (LAPACKE, the LAPACK inside OpenBLAS, quadmath), so that
  # no order of them is right: the linker goes round until nothing is missing.
  # Weak references (src/linalg) take nothing out of an archive, and BLAS would keep its own number of threads: -u does.
  set(ESSCHER_STATIC_LIBRARIES -static
      "-Wl,-u,openblas_get_config,-u,openblas_get_num_threads,-u,openblas_set_num_threads"
      "-Wl,--start-group,-llapacke,-lopenblas,-lgfortran,-lquadmath,-lsqlite3,-lz,-lpthread,-lm,--end-group")
endif()
