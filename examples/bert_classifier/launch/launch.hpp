// Detects how the program was started: alone, or by an MPI launcher (mpirun) as one of several
// ranks.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/parallel/communicator.hpp>

#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// The environment describes several processes, but the processes cannot reach each other. The
// message ends with a command that would work. Exit code 2.
struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Refuses commands that several processes would each do: error LaunchError if the environment
// describes several processes.
void check_alone(const std::string& command);

// The program has one Launch, which outlives every error. A run without a launcher never calls MPI.
class Launch {
 public:
  Launch();
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Connects to the other ranks. From then on only rank 0 prints: output of other ranks to
  // std::cout and std::cerr is dropped. Error messages quote `command`, the command line as typed.
  // If a rank is missing after the time limit, the process ends with exit code 1 and
  // parallel.timeout. Errors LaunchError, parallel.ranks, parallel.transport, parallel.argument.
  void join(const RankOptions& options, std::size_t shards,
            const std::vector<std::string>& command);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Returns nullptr if this process trains alone.
  soma::Communicator* communicator();
  // The number of cores that belong to this rank alone: at least 1. Only known after join().
  int threads() const { return threads_; }
  // Prints a line if the launcher's binding leaves cores of this machine unused.
  void warn(std::ostream& out) const;

  // Ends a successful run. Waits for the other ranks within the time limit, because MPI_Finalize
  // has no time limit. Errors of Communicator::barrier().
  void leave();

  // Error messages are also written to this file.
  void set_failure_file(const std::string& path) { failure_file_ = path; }
  // Writes an error message as one line to standard error. With several ranks the line begins with
  // "rank 3: ", all ranks end with the exit code, and the call does not return.
  void fail(const std::string& message, int code);
  // Ends all ranks after a signal, which every rank receives, with exit code 1. Rank 0 writes the
  // message; another rank writes it only if rank 0 does not end in time. A launcher also sends
  // signals when one rank has failed.
  void give_up(const std::string& message);
  // Writes the message on rank 0, for an end that all ranks know of and reach by themselves: no
  // rank ends another rank.
  void tell(const std::string& message);

 private:
  struct World;
  void write(std::string_view message);

  int rank_ = 0, size_ = 1, threads_ = 0;
  int idle_cores_ = 0;
  std::unique_ptr<World> world_;
  std::string failure_file_;
  // The buffers of std::cout and std::cerr before their output was dropped.
  std::streambuf *out_ = nullptr, *error_ = nullptr;
};
