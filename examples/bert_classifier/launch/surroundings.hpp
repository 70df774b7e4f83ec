// Information about other processes in the environment variables of launchers and hosting services.
#pragma once

#include <string>
#include <vector>

struct Surroundings {
  bool launcher = false;     // an MPI launcher has started this process
  bool first = true;         // as its rank 0, or nobody has
  int processes = 1;         // that work together, as whoever names most of them says
  std::string source;        // who says so, "WORLD_SIZE=2 of torchrun"; empty: nobody
  std::string hosts;         // "algo-1,algo-2"; empty: not said
  bool other_hosts = false;  // some run on hosts whose names are not said
};

// Error UsageError: the hosts of a job are no list of names.
Surroundings look_around();

// A shell command that starts the processes: "mpirun -n 2 --host a,b PROGRAM ...". If the hosts
// have no names: --hostfile HOSTS, which the user writes.
std::string mpirun_line(const Surroundings& around, const std::vector<std::string>& command);
