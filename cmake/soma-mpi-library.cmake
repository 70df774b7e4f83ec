# MPI::MPI_CXX, if an MPI library of version 3 or later is found. Only its C functions are used, the old C++ classes
# are not even seen. Used by soma itself and by the installed package.
if(NOT TARGET MPI::MPI_CXX)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3 QUIET COMPONENTS CXX)
endif()
