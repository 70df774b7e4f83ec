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

namespace SOMA_NAMESPACE {

// A view: messages go through the parent, between the same processes. It has no tags of its own:
// two groups that share more than one rank, and the parent itself, must use different tags. Errors
// name ranks of the parent; the time limit of waits is the group's.
class GroupCommunicator final : public Communicator {
 public:
  // `members`: ranks of the parent, each once; this rank must be among them. Error
  // parallel.argument.
  GroupCommunicator(Communicator& parent, std::vector<int> members);

  int rank() const override { return rank_; }
  SOMA_INLINE int size() const override;
  SOMA_INLINE void abort(std::string_view reason) override;

 protected:
  SOMA_INLINE std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) override;
  SOMA_INLINE std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) override;
  SOMA_INLINE bool poll(std::uint64_t number) override;
  SOMA_INLINE void cancel(std::uint64_t number) noexcept override;
  SOMA_INLINE void idle(std::uint64_t round) override;

 private:
  int member(int rank) const;

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

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/group.ipp>
#endif
