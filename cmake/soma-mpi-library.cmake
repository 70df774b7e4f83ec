# SOMA_MPI_FOUND, and MPI::MPI_CXX, if an MPI library of version 3 or later is found. Only its C functions are used, the
# old C++ classes are not even seen. Used by soma itself and by the installed package.
if(TARGET MPI::MPI_CXX AND NOT DEFINED MPI_CXX_FOUND)  # a target of the project's own
  set(SOMA_MPI_FOUND TRUE)
else()
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3 QUIET COMPONENTS CXX)
  set(SOMA_MPI_FOUND "${MPI_CXX_FOUND}")  # the module makes its target also where it has found nothing
endif()
