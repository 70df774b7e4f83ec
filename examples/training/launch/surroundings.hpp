// Information about other processes in the environment variables of launchers and hosting services.
#pragma once

#include <string>
#include <vector>

struct Surroundings {
  bool launcher = false;     // an MPI launcher has started this process
  bool first = true;         // this process is rank 0, or no launcher started it
  int processes = 1;         // the largest number of processes that a variable names
  std::string source;        // the variable, "WORLD_SIZE=2 of torchrun"; empty: none
  std::string hosts;         // "algo-1,algo-2"; empty: unknown
  bool other_hosts = false;  // some processes run on hosts with unknown names
};

// Error UsageError: the hosts of a job are no list of names.
Surroundings look_around();

// A shell command that starts the processes: "mpirun -n 2 --host a,b PROGRAM ...". If the hosts
// have no names: --hostfile HOSTS, which the user writes.
std::string mpirun_line(const Surroundings& around, const std::vector<std::string>& command);
