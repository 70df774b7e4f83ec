#pragma once
// The two halves of an all-reduce, as objects that never wait, so that sums of several buffers are
// on their way while a program computes.
//
// ReduceScatter goes through distances 1, 2, 4, ... At each, a rank exchanges half of what it still
// works on with rank ^ distance and adds the half that it keeps. Neighbours meet first, then pairs
// of neighbours: element by element this is the fixed tree in which shards meet
// (tensor/ragged.hpp), so the sum has the same bits for any power of two of ranks. AllGather is the
// way back.
//
// n elements, R ranks: each log2(R) messages and n (R - 1) / R elements sent and received a rank,
// which is the least possible.

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

// own += theirs. Which of two comes first cannot be seen (but for the payload of two NaNs); which
// sums are added to which is what the distances decide. In blocks of a known size, because at -O2
// g++ turns only those into vectors.
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

// How sums travel where that is not as fp32.
class SumFormat {
 public:
  virtual ~SumFormat() = default;
  virtual std::size_t bytes() const = 0;  // of a number
  // Rounds sums to numbers of the format and writes their codes. They are those from element
  // `begin` of the buffer on, and the addends of `ranks` neighbours are in them.
  virtual void round(std::size_t begin, std::span<float> sums, int ranks,
                     std::span<std::byte> codes) = 0;
  virtual void widen(std::span<const std::byte> codes, std::span<float> values) = 0;

 protected:
  SumFormat() = default;
  SumFormat(const SumFormat&) = default;
  SumFormat& operator=(const SumFormat&) = default;
};

// After it, each rank has the sum over all ranks of its part of the buffer, owned_range() or what
// another Partition says; the rest holds partial sums of no use. Every rank starts it with the same
// number of elements, the same partition and the same tag. Several may be on their way at once,
// with different tags, started and advanced in any order. One object is used for one buffer after
// the other and keeps its scratch of half the largest. Destroyed while on its way: the messages are
// taken back; the other ranks' waits fail in the end.
//
// With a SumFormat what travels is rounded before each round: what a rank sends, and what it keeps
// of the same sums, so that a result does not depend on who owns it. The sums at the end are fp32.
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

  // The values are this object's until done(), and the partition stays where it is. Errors
  // memory.exhausted, parallel.argument (the tag; the one before is not done, perhaps for an
  // error).
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
  // Does what can be done without waiting, and returns done(). Adds what has arrived. Errors as
  // Communicator::test().
  bool advance() {
    while (!done()) {
      const bool received = communicator_.test(receive_), sent = communicator_.test(send_);
      if (!received || !sent) return false;
      end_round();
    }
    return true;
  }
  bool done() const { return distance_ >= communicator_.size(); }
  // Waits until done; returns this rank's part of the values. Only this one moves on: of several on
  // their way, every rank finishes them in the same order, or advances all in a loop. Errors as
  // Communicator::wait().
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
  int distance_;  // of this round; the number of ranks: done
  EvenPartition even_{};
  const Partition* partition_ = &even_;
  std::span<float> values_;
  Request receive_, send_;
};

// From each rank its part, to all the whole buffer. The rest as ReduceScatter, but without scratch.
// The elements may be of any type, of which memory is copied.
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
  // For elements whose size is known at run time: bytes is `element_bytes` times their number.
  // Errors parallel.argument (that, the tag; the one before is not done, perhaps for an error).
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
  int distance_ = 0;  // of this round; 0: done
  std::span<std::byte> bytes_;
  std::size_t element_bytes_ = 1;
  EvenPartition even_{};
  const Partition* partition_ = &even_;
  Request receive_, send_;
};

}  // namespace soma
