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

namespace soma {

namespace detail {

// own += theirs. The order of the two has no effect (except on the payload of two NaNs); the
// distances decide which sums are added. The loop has blocks of a known size, because g++ at -O2
// vectorises only such loops.
inline void add(float* __restrict own, const float* __restrict theirs, std::size_t count) {
  constexpr std::size_t block = 16;
  const FloatEnvironment environment;
  const std::size_t whole = count - count % block;
  for (std::size_t i = 0; i < whole; i += block)
    for (std::size_t j = 0; j < block; ++j) own[i + j] += theirs[i + j];
  for (std::size_t i = whole; i < count; ++i) own[i] += theirs[i];
}

[[noreturn]] inline void still_on_its_way(std::string_view operation) {
  fail(error_id::parallel_argument, operation, "the buffer before", "still on its way", "done");
}

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
  ReduceScatter(Communicator& communicator, Heap& heap, int tag, SumFormat* format = nullptr)
      : communicator_(communicator),
        scratch_(heap),
        sent_(heap),
        arriving_(heap),
        format_(format),
        tag_(tag),
        distance_(communicator.size()) {
    check_ranks(communicator.size(), detail::any_number_of_shards);
  }

  // The values belong to this object until done(), and the partition must stay in place. Errors
  // memory.exhausted, parallel.argument (the tag; or the previous buffer is not done, perhaps
  // because of an error).
  void start(std::span<float> values) {
    if (!done()) detail::still_on_its_way("ReduceScatter::start");
    even_ = EvenPartition(values.size());
    start(values, even_);
  }
  void start(std::span<float> values, const Partition& partition) {
    if (!done()) detail::still_on_its_way("ReduceScatter::start");
    values_ = values;
    partition_ = &partition;
    distance_ = 1;
    if (!done()) start_round();
  }
  // Advances as far as possible without waiting, and returns done(). Adds the data that have
  // arrived. Errors as of Communicator::test().
  bool advance() {
    while (!done()) {
      const bool received = communicator_.test(receive_), sent = communicator_.test(send_);
      if (!received || !sent) return false;
      end_round();
    }
    return true;
  }
  bool done() const { return distance_ >= communicator_.size(); }
  // Waits until done; returns this rank's part of the values. Only this object advances: if several
  // are in transit, every rank must finish them in the same order, or advance all in a loop. Errors
  // as of Communicator::wait().
  std::span<float> finish() {
    while (!done()) {
      communicator_.wait(receive_);
      communicator_.wait(send_);
      end_round();
    }
    const Part own = partition_->part(communicator_.rank(), communicator_.size());
    return values_.subspan(own.begin, own.count);
  }

 private:
  int peer() const { return communicator_.rank() ^ distance_; }
  Part part_of(int rank) const {
    return partition_->part(rank, 2 * distance_);
  }  // after this round
  void start_round() {
    const Part own = part_of(communicator_.rank()), theirs = part_of(peer());
    const std::span<float> sums = scratch_.get(own.count);
    if (format_ == nullptr) {
      receive_ = communicator_.start_receive(peer(), tag_, std::as_writable_bytes(sums));
      send_ = communicator_.start_send(peer(), tag_,
                                       std::as_bytes(values_.subspan(theirs.begin, theirs.count)));
      return;
    }
    const std::size_t bytes = format_->bytes();
    const Part both = partition_->part(communicator_.rank(), distance_);
    const std::span<std::byte> codes = sent_.get(both.count * bytes);
    format_->round(both.begin, values_.subspan(both.begin, both.count), distance_, codes);
    receive_ = communicator_.start_receive(peer(), tag_, arriving_.get(own.count * bytes));
    send_ = communicator_.start_send(
        peer(), tag_, codes.subspan((theirs.begin - both.begin) * bytes, theirs.count * bytes));
  }
  void end_round() {
    const Part own = part_of(communicator_.rank());
    const std::span<float> arrived = scratch_.get(own.count);
    if (format_ != nullptr) format_->widen(arriving_.get(own.count * format_->bytes()), arrived);
    detail::add(values_.data() + own.begin, arrived.data(), own.count);
    distance_ *= 2;
    if (!done()) start_round();
  }

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
  AllGather(Communicator& communicator, int tag) : communicator_(communicator), tag_(tag) {
    check_ranks(communicator.size(), detail::any_number_of_shards);
  }

  template <class T>
  void start(std::span<T> values) {
    start(std::as_writable_bytes(values), sizeof(T));
  }
  // For elements whose size is known at run time: the size of `bytes` is a multiple of
  // `element_bytes`. Errors parallel.argument (another size, the tag; or the previous buffer is not
  // done, perhaps because of an error).
  void start(std::span<std::byte> bytes, std::size_t element_bytes) {
    if (!done()) detail::still_on_its_way("AllGather::start");
    even_ = EvenPartition(element_bytes == 0 ? 0 : bytes.size() / element_bytes);
    start(bytes, element_bytes, even_);
  }
  void start(std::span<std::byte> bytes, std::size_t element_bytes, const Partition& partition) {
    if (!done()) detail::still_on_its_way("AllGather::start");
    if (element_bytes == 0 || bytes.size() % element_bytes != 0)
      fail(error_id::parallel_argument, "AllGather::start", "bytes", std::to_string(bytes.size()),
           "a multiple of the size of an element, " + std::to_string(element_bytes));
    bytes_ = bytes;
    element_bytes_ = element_bytes;
    partition_ = &partition;
    distance_ = communicator_.size() / 2;
    if (!done()) start_round();
  }
  bool advance() {
    while (!done()) {
      const bool received = communicator_.test(receive_), sent = communicator_.test(send_);
      if (!received || !sent) return false;
      end_round();
    }
    return true;
  }
  bool done() const { return distance_ == 0; }
  void finish() {
    while (!done()) {
      communicator_.wait(receive_);
      communicator_.wait(send_);
      end_round();
    }
  }

 private:
  int peer() const { return communicator_.rank() ^ distance_; }
  std::span<std::byte> part_of(int rank) const {  // before this round
    const Part part = partition_->part(rank, 2 * distance_);
    return bytes_.subspan(part.begin * element_bytes_, part.count * element_bytes_);
  }
  void start_round() {
    receive_ = communicator_.start_receive(peer(), tag_, part_of(peer()));
    send_ = communicator_.start_send(peer(), tag_, part_of(communicator_.rank()));
  }
  void end_round() {
    distance_ /= 2;
    if (!done()) start_round();
  }

  Communicator& communicator_;
  int tag_;
  int distance_ = 0;  // the round's distance; 0: done
  std::span<std::byte> bytes_;
  std::size_t element_bytes_ = 1;
  EvenPartition even_{};
  const Partition* partition_ = &even_;
  Request receive_, send_;
};

}  // namespace soma
