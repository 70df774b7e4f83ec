#pragma once
// Communication between the ranks of a data-parallel training: the interface, sums in the order of
// the shard tree, agreement. Transports stand apart: soma/mpi.hpp for processes, and
// soma/parallel/in_process.hpp for threads; what a trainer does with them in
// soma/parallel/gradient_reducer.hpp.

#include <soma/parallel/agreement.hpp>
#include <soma/parallel/collectives.hpp>
#include <soma/parallel/communicator.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/parallel/reduce_scatter.hpp>
