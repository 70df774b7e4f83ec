// How the program was started: alone, or by an MPI launcher (mpirun) as one of several ranks.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/parallel/communicator.hpp>

#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// The environment speaks of several processes, and they cannot reach each other. The message ends
// with the command that would work. Exit code 2.
struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// For commands that several processes would do several times: error LaunchError where the
// environment speaks of them.
void check_alone(const std::string& command);

// One for the whole program: it outlives what fails. A plain run never touches MPI.
class Launch {
 public:
  Launch();
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Meets the other ranks. From here on only rank 0 is heard: what others write to std::cout and
  // std::cerr is dropped. `command` is what was typed, for the message of an error. Where the
  // others do not come within the time limit, the process ends with exit code 1 and
  // parallel.timeout. Errors LaunchError, parallel.ranks, parallel.transport, parallel.argument.
  void join(const RankOptions& options, std::size_t shards,
            const std::vector<std::string>& command);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // nullptr: this process trains alone.
  soma::Communicator* communicator();
  // The cores that are this rank's, shared with nobody: at least 1. Not known before join().
  int threads() const { return threads_; }
  // A line where the launcher's binding leaves cores of this machine to no rank.
  void warn(std::ostream& out) const;

  // The end of a good run: waits for the other ranks, within the time limit, which MPI's own end
  // does not have. Errors of Communicator::barrier().
  void leave();

  // A file that also gets the message of an error.
  void set_failure_file(const std::string& path) { failure_file_ = path; }
  // Writes the message of an error, one line, to standard error. With other ranks it begins with
  // "rank 3: ", and all end with the exit code: then this does not return.
  void fail(const std::string& message, int code);
  // The same with exit code 1 for a signal, which all ranks get: rank 0 says it, unless it does not
  // get to it. A launcher that ends all ranks, as it does when one has failed, sends signals too.
  void give_up(const std::string& message);
  // The same for an end that all ranks know of and come to by themselves: nobody is ended. Rank 0
  // writes it.
  void tell(const std::string& message);

 private:
  struct World;
  void write(std::string_view message);

  int rank_ = 0, size_ = 1, threads_ = 0;
  int idle_cores_ = 0;
  std::unique_ptr<World> world_;
  std::string failure_file_;
  // Where std::cout and std::cerr went before they were silenced.
  std::streambuf *out_ = nullptr, *error_ = nullptr;
};
