#pragma once
// Ranks that are processes, over MPI. Needs an MPI library of version 3 or later (soma::mpi in
// CMake).

#include <soma/parallel/mpi.hpp>
