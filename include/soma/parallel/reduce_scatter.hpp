#pragma once
// The two halves of an all-reduce, as objects that never wait, so that several buffers can be in
// transit while a program computes.
//
// ReduceScatter goes through distances 1, 2, 4, ... At each distance, a rank exchanges half of its
// present range with rank ^ distance and adds the half that it keeps. Neighbours are added first,
// then pairs of neighbours: element by element this is the fixed tree in which shards are added
// (tensor/ragged.hpp), so the sum has the same bits for any power of two of ranks. AllGather is the
// way back.
//
// For n elements and R ranks, each half sends and receives log2(R) messages and n (R - 1) / R
// elements per rank, which is the minimum.

#include <soma/base/error.hpp>
#include <soma/parallel/communicator.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/parallel/scratch.hpp>
#include <soma/runtime/float_environment.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace detail {

// own += theirs. The order of the two has no effect (except on the payload of two NaNs); the
// distances decide which sums are added. The loop has blocks of a known size, because g++ at -O2
// vectorises only such loops.
void add(float* __restrict own, const float* __restrict theirs, std::size_t count);

[[noreturn]] void still_on_its_way(std::string_view operation);

inline constexpr std::size_t any_number_of_shards = (std::numeric_limits<std::size_t>::max)();

}  // namespace detail

// The format of sums in transit, if it is not fp32.
class SumFormat {
 public:
  virtual ~SumFormat() = default;
  virtual std::size_t bytes() const = 0;  // the bytes of a number
  // Rounds sums to numbers of the format and writes their codes. The sums are those from element
  // `begin` of the buffer on, and contain the addends of `ranks` neighbours.
  virtual void round(std::size_t begin, std::span<float> sums, int ranks,
                     std::span<std::byte> codes) = 0;
  virtual void widen(std::span<const std::byte> codes, std::span<float> values) = 0;

 protected:
  SumFormat() = default;
  SumFormat(const SumFormat&) = default;
  SumFormat& operator=(const SumFormat&) = default;
};

// Afterwards each rank has the sum over all ranks of its part of the buffer: owned_range(), or the
// part of another Partition; the rest holds useless partial sums. Every rank starts it with the
// same number of elements, the same partition and the same tag. Several may be in transit at once,
// with different tags, started and advanced in any order. One object serves one buffer after the
// other and keeps its scratch memory of half the largest. Destroying it in transit cancels its
// messages; the other ranks' waits then fail.
//
// With a SumFormat, numbers are rounded before each round: both those that a rank sends and those
// that it keeps of the same sums, so that a result does not depend on its owner. The sums at the
// end are fp32.
class ReduceScatter {
 public:
  // Error parallel.ranks.
  ReduceScatter(Communicator& communicator, Heap& heap, int tag, SumFormat* format = nullptr);

  // The values belong to this object until done(), and the partition must stay in place. Errors
  // memory.exhausted, parallel.argument (the tag; or the previous buffer is not done, perhaps
  // because of an error).
  void start(std::span<float> values);
  void start(std::span<float> values, const Partition& partition);
  // Advances as far as possible without waiting, and returns done(). Adds the data that have
  // arrived. Errors as of Communicator::test().
  bool advance();
  bool done() const;
  // Waits until done; returns this rank's part of the values. Only this object advances: if several
  // are in transit, every rank must finish them in the same order, or advance all in a loop. Errors
  // as of Communicator::wait().
  std::span<float> finish();

 private:
  int peer() const;
  Part part_of(int rank) const;  // after this round
  void start_round();
  void end_round();

  Communicator& communicator_;
  detail::Scratch<float> scratch_;  // these three outlive the requests
  detail::Scratch<std::byte> sent_, arriving_;
  SumFormat* format_;
  int tag_;
  int distance_;  // the round's distance; the number of ranks: done
  EvenPartition even_{};
  const Partition* partition_ = &even_;
  std::span<float> values_;
  Request receive_, send_;
};

// Sends each rank's part to all, so that all have the whole buffer. Otherwise as ReduceScatter, but
// without scratch memory. For any trivially copyable type.
class AllGather {
 public:
  // Error parallel.ranks.
  AllGather(Communicator& communicator, int tag);

  template <class T>
  void start(std::span<T> values) {
    start(std::as_writable_bytes(values), sizeof(T));
  }
  // For elements whose size is known at run time: the size of `bytes` is a multiple of
  // `element_bytes`. Errors parallel.argument (another size, the tag; or the previous buffer is not
  // done, perhaps because of an error).
  void start(std::span<std::byte> bytes, std::size_t element_bytes);
  void start(std::span<std::byte> bytes, std::size_t element_bytes, const Partition& partition);
  bool advance();
  bool done() const { return distance_ == 0; }
  void finish();

 private:
  int peer() const;
  std::span<std::byte> part_of(int rank) const;
  void start_round();
  void end_round();

  Communicator& communicator_;
  int tag_;
  int distance_ = 0;  // the round's distance; 0: done
  std::span<std::byte> bytes_;
  std::size_t element_bytes_ = 1;
  EvenPartition even_{};
  const Partition* partition_ = &even_;
  Request receive_, send_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/reduce_scatter.ipp>
#endif
