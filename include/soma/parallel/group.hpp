#pragma once
// A subset of the ranks of a communicator as a communicator of its own, and a communicator with a
// single rank.

#include <soma/parallel/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma {

// A view: messages go through the parent, between the same processes. It has no tags of its own:
// two groups that share more than one rank, and the parent itself, must use different tags. Errors
// name ranks of the parent; the time limit of waits is the group's.
class GroupCommunicator final : public Communicator {
 public:
  // `members`: ranks of the parent, each once; this rank must be among them. Error
  // parallel.argument.
  GroupCommunicator(Communicator& parent, std::vector<int> members)
      : parent_(parent), members_(std::move(members)) {
    const auto own = std::find(members_.begin(), members_.end(), parent.rank());
    std::vector<int> sorted = members_;
    std::sort(sorted.begin(), sorted.end());
    if (own == members_.end() || sorted.front() < 0 || sorted.back() >= parent.size() ||
        std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      fail(error_id::parallel_argument, "GroupCommunicator", "members",
           std::to_string(members_.size()) + " ranks",
           "different ranks of " + std::to_string(parent.size()) + ", " +
               std::to_string(parent.rank()) + " among them");
    rank_ = static_cast<int>(own - members_.begin());
    set_time_limit(parent.time_limit());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void abort(std::string_view reason) override { parent_.abort(reason); }

 protected:
  std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) override {
    return parent_.begin_send(member(to), tag, bytes);
  }
  std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) override {
    return parent_.begin_receive(member(from), tag, bytes);
  }
  bool poll(std::uint64_t number) override { return parent_.poll(number); }
  void cancel(std::uint64_t number) noexcept override { parent_.cancel(number); }
  void idle(std::uint64_t round) override { parent_.idle(round); }

 private:
  int member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  Communicator& parent_;
  std::vector<int> members_;
  int rank_ = 0;
};

// A single rank: there is no other rank to send to.
class AloneCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void abort(std::string_view) override {}

 protected:
  std::uint64_t begin_send(int, int, std::span<const std::byte>) override { return 0; }
  std::uint64_t begin_receive(int, int, std::span<std::byte>) override { return 0; }
  bool poll(std::uint64_t) override { return true; }
  void cancel(std::uint64_t) noexcept override {}
};

}  // namespace soma
