// bert_classifier train, its ranks threads of one process: the program itself with another Launch.
// Usage: threads_as_ranks RANKS train OPTIONS...    Exit code: 0 done, 1 not.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/train/options.hpp"
#include "training/launch/launch.hpp"

#include <CLI/CLI.hpp>
#include <soma/parallel/in_process.hpp>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <streambuf>
#include <string>
#include <thread>
#include <vector>

soma::train::StopFlag stop_requested;

namespace {

// The group and rank of the calling thread.
thread_local soma::InProcessGroup* own_group = nullptr;
thread_local int own_rank = 0;

// Passes on the output of rank 0; drops the output of other ranks.
class FirstRankOnly final : public std::streambuf {
 public:
  explicit FirstRankOnly(std::ostream& stream) : stream_(stream), target_(stream.rdbuf(this)) {}
  ~FirstRankOnly() override { stream_.rdbuf(target_); }
  FirstRankOnly(const FirstRankOnly&) = delete;
  FirstRankOnly& operator=(const FirstRankOnly&) = delete;

 protected:
  int_type overflow(int_type letter) override {
    return own_rank == 0 ? target_->sputc(traits_type::to_char_type(letter)) : letter;
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    return own_rank == 0 ? target_->sputn(text, count) : count;
  }
  int sync() override { return own_rank == 0 ? target_->pubsync() : 0; }

 private:
  std::ostream& stream_;
  std::streambuf* target_;
};

}  // namespace

struct Launch::World {
  soma::InProcessCommunicator communicator;
};

Launch::Launch() = default;
Launch::~Launch() = default;

void Launch::join(const RankOptions& options, std::size_t, const std::vector<std::string>&) {
  world_.reset(new World{.communicator = soma::InProcessCommunicator(*own_group, own_rank)});
  world_->communicator.set_time_limit(options.time_limit);
  rank_ = own_rank;
  size_ = own_group->size();
  threads_ = 1;
}
soma::Communicator* Launch::communicator() { return &world_->communicator; }
void Launch::warn(std::ostream&) const {}
void Launch::tell(const std::string& message) {
  if (rank_ == 0) std::cerr << message << '\n';
}

int main(int count, char** given) {
  const std::vector<std::string> command(given, given + count);
  const int ranks = count > 2 ? std::atoi(given[1]) : 0;
  if (ranks < 1 || command[2] != "train") {
    std::cerr << "usage: threads_as_ranks RANKS train OPTIONS...\n";
    return 1;
  }
  try {
    CLI::App app{"threads as ranks"};
    TrainOptions options;
    add_options(app, options);
    app.parse(std::vector<std::string>(command.rbegin(), command.rend() - 3));
    const FirstRankOnly out(std::cout), error(std::cerr);
    soma::InProcessGroup group(ranks);
    std::vector<std::thread> threads;
    std::vector<std::string> failures(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        own_group = &group;
        own_rank = rank;
        try {
          Launch launch;
          train(options, launch, command);
        } catch (const std::exception& problem) {
          failures[static_cast<std::size_t>(rank)] = problem.what();
        }
      });
    for (std::thread& thread : threads) thread.join();
    int code = 0;
    for (std::size_t rank = 0; rank < failures.size(); ++rank) {
      if (failures[rank].empty()) continue;
      std::cerr << "rank " << rank << ": " << failures[rank] << '\n';
      code = 1;
    }
    return code;
  } catch (const std::exception& problem) {
    std::cerr << problem.what() << '\n';
    return 1;
  }
}
