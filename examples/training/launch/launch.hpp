// The way in which the program was started: alone, or by an MPI launcher (mpirun) as one of several
// ranks.
#pragma once

#include "training/run_options.hpp"

#include <soma/parallel/communicator.hpp>

#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// The environment names several processes that cannot reach each other. The message ends with a
// command that would work. Exit code 2.
struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// For commands that several processes would repeat: error LaunchError if the environment names
// several processes.
void check_alone(const std::string& command);

// One object for the whole program: it outlives failed commands. A run without a launcher never
// touches MPI.
class Launch {
 public:
  Launch();
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Joins the other ranks. From here on only rank 0 is heard: the output of other ranks to
  // std::cout and std::cerr is dropped. `command`: the typed command line, for an error's message.
  // If the other ranks do not come within the time limit, the process ends with exit code 1 and
  // parallel.timeout. Errors LaunchError, parallel.ranks, parallel.transport, parallel.argument.
  void join(const RankOptions& options, std::size_t shards,
            const std::vector<std::string>& command);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // nullptr if this process trains alone.
  soma::Communicator* communicator();
  // The number of this rank's own cores, at least 1. Not known before join().
  int threads() const { return threads_; }
  // Prints a line if the launcher's binding leaves cores of this machine unused.
  void warn(std::ostream& out) const;

  // The end of a successful run: waits for the other ranks within the time limit, which MPI's own
  // end does not have. Errors of Communicator::barrier().
  void leave();

  // A file that also gets an error's message.
  void set_failure_file(const std::string& path) { failure_file_ = path; }
  // Writes an error's message, one line, to standard error. With several ranks the line begins with
  // "rank 3: ", and all ranks end with the exit code: this call then does not return.
  void fail(const std::string& message, int code);
  // The same with exit code 1 for a signal, which all ranks get: rank 0 reports it, unless it
  // cannot. A launcher that ends all ranks after a failure sends signals too.
  void give_up(const std::string& message);
  // The same for an end that all ranks reach by themselves: no rank is ended. Rank 0 writes the
  // message.
  void tell(const std::string& message);

 private:
  struct World;
  void write(std::string_view message);

  int rank_ = 0, size_ = 1, threads_ = 0;
  int idle_cores_ = 0;
  std::unique_ptr<World> world_;
  std::string failure_file_;
  // The original targets of std::cout and std::cerr before they were silenced.
  std::streambuf *out_ = nullptr, *error_ = nullptr;
};

// Makes a check that fails on all ranks alike: rank 0 reports the mistake, and ends the others
// while they wait.
template <class Check>
void check_on_all(Launch& launch, const Check& check) {
  try {
    check();
  } catch (...) {
    if (launch.rank() != 0) launch.communicator()->barrier();
    throw;
  }
}
