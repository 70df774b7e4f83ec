#pragma once
// The functions of reduce_scatter.hpp.

#include <soma/parallel/reduce_scatter.hpp>

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

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void add(float* __restrict own, const float* __restrict theirs, std::size_t count) {
  constexpr std::size_t block = 16;
  const FloatEnvironment environment;
  const std::size_t whole = count - count % block;
  for (std::size_t i = 0; i < whole; i += block)
    for (std::size_t j = 0; j < block; ++j) own[i + j] += theirs[i + j];
  for (std::size_t i = whole; i < count; ++i) own[i] += theirs[i];
}

SOMA_INLINE void still_on_its_way(std::string_view operation) {
  fail(error_id::parallel_argument, operation, "the buffer before", "still on its way", "done");
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE ReduceScatter::ReduceScatter(Communicator& communicator, Heap& heap, int tag,
                                         SumFormat* format)
    : communicator_(communicator),
      scratch_(heap),
      sent_(heap),
      arriving_(heap),
      format_(format),
      tag_(tag),
      distance_(communicator.size()) {
  check_ranks(communicator.size(), detail::any_number_of_shards);
}

SOMA_INLINE void ReduceScatter::start(std::span<float> values) {
  if (!done()) detail::still_on_its_way("ReduceScatter::start");
  even_ = EvenPartition(values.size());
  start(values, even_);
}

SOMA_INLINE void ReduceScatter::start(std::span<float> values, const Partition& partition) {
  if (!done()) detail::still_on_its_way("ReduceScatter::start");
  values_ = values;
  partition_ = &partition;
  distance_ = 1;
  if (!done()) start_round();
}

SOMA_INLINE bool ReduceScatter::advance() {
  while (!done()) {
    const bool received = communicator_.test(receive_), sent = communicator_.test(send_);
    if (!received || !sent) return false;
    end_round();
  }
  return true;
}

SOMA_INLINE bool ReduceScatter::done() const { return distance_ >= communicator_.size(); }

SOMA_INLINE std::span<float> ReduceScatter::finish() {
  while (!done()) {
    communicator_.wait(receive_);
    communicator_.wait(send_);
    end_round();
  }
  const Part own = partition_->part(communicator_.rank(), communicator_.size());
  return values_.subspan(own.begin, own.count);
}

SOMA_INLINE int ReduceScatter::peer() const { return communicator_.rank() ^ distance_; }

SOMA_INLINE Part ReduceScatter::part_of(int rank) const {
  return partition_->part(rank, 2 * distance_);
}

SOMA_INLINE void ReduceScatter::start_round() {
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

SOMA_INLINE void ReduceScatter::end_round() {
  const Part own = part_of(communicator_.rank());
  const std::span<float> arrived = scratch_.get(own.count);
  if (format_ != nullptr) format_->widen(arriving_.get(own.count * format_->bytes()), arrived);
  detail::add(values_.data() + own.begin, arrived.data(), own.count);
  distance_ *= 2;
  if (!done()) start_round();
}

SOMA_INLINE AllGather::AllGather(Communicator& communicator, int tag)
    : communicator_(communicator), tag_(tag) {
  check_ranks(communicator.size(), detail::any_number_of_shards);
}

SOMA_INLINE void AllGather::start(std::span<std::byte> bytes, std::size_t element_bytes) {
  if (!done()) detail::still_on_its_way("AllGather::start");
  even_ = EvenPartition(element_bytes == 0 ? 0 : bytes.size() / element_bytes);
  start(bytes, element_bytes, even_);
}

SOMA_INLINE void AllGather::start(std::span<std::byte> bytes, std::size_t element_bytes,
                                  const Partition& partition) {
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

SOMA_INLINE bool AllGather::advance() {
  while (!done()) {
    const bool received = communicator_.test(receive_), sent = communicator_.test(send_);
    if (!received || !sent) return false;
    end_round();
  }
  return true;
}

SOMA_INLINE void AllGather::finish() {
  while (!done()) {
    communicator_.wait(receive_);
    communicator_.wait(send_);
    end_round();
  }
}

SOMA_INLINE int AllGather::peer() const { return communicator_.rank() ^ distance_; }

SOMA_INLINE std::span<std::byte> AllGather::part_of(int rank) const {  // before this round
  const Part part = partition_->part(rank, 2 * distance_);
  return bytes_.subspan(part.begin * element_bytes_, part.count * element_bytes_);
}

SOMA_INLINE void AllGather::start_round() {
  receive_ = communicator_.start_receive(peer(), tag_, part_of(peer()));
  send_ = communicator_.start_send(peer(), tag_, part_of(communicator_.rank()));
}

SOMA_INLINE void AllGather::end_round() {
  distance_ /= 2;
  if (!done()) start_round();
}

}  // namespace SOMA_NAMESPACE
