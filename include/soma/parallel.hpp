#pragma once
// Communication between the ranks of a data-parallel training: the interface, sums in the order of
// the shard tree, and agreement. The transports have headers of their own: soma/mpi.hpp for
// processes, and soma/parallel/in_process.hpp for threads. soma/parallel/gradient_reducer.hpp is
// their use in a trainer.

#include <soma/parallel/agreement.hpp>
#include <soma/parallel/collectives.hpp>
#include <soma/parallel/communicator.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/parallel/reduce_scatter.hpp>
