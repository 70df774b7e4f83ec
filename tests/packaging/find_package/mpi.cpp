// The header behind component mpi, in a unit of its own.
#include <soma/mpi.hpp>

bool mpi_began();
bool mpi_began() {
  int initialised = 0;
  return MPI_Initialized(&initialised) == MPI_SUCCESS && initialised != 0;
}
