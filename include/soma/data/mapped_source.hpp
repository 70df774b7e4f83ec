#pragma once
// MappedSource: a function of each batch of another source: augmentation, further fields.
//
//   data::ArraySource images(context, {.inputs = pixels, .labels = digits});
//   data::MappedSource shifted(images, "shift", 7, data::random_crop(2));
//   data::Prefetch ahead(shifted);  // runs the function in its thread
//
// Random numbers of a sequence depend on seed, name, epoch and its number in the data alone:
// neither the size of batches nor threads, ranks or a break change what a sequence becomes.

#include <soma/data/batch.hpp>
#include <soma/numeric/draw_sequence.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace SOMA_NAMESPACE::data {

// The random numbers of the sequences of a batch.
class ItemDraws {
 public:
  ItemDraws(const Batch& batch, std::uint64_t seed, std::uint32_t stream)
      : batch_(batch), seed_(seed), stream_(stream) {}
  // Those of sequence i of the batch: 2^32 words. Errors data.field: the source does not number its
  // sequences (Batch::items); random.index_range: an epoch of 2^32 or more.
  DrawSequence operator()(std::size_t i) const;

 private:
  const Batch& batch_;
  std::uint64_t seed_;
  std::uint32_t stream_;
};

class MappedSource final : public BatchSource {
 public:
  // function(batch, draws) changes a batch: it may replace tensors and add fields, and keeps the
  // sequences. The function runs where next() is called. Name and seed are part of the source's
  // identity, so a name stands for one function. The source outlives this.
  using Function = std::function<void(Batch& batch, const ItemDraws& draws)>;
  // Error data.field: an empty name.
  MappedSource(BatchSource& source, std::string name, std::uint64_t seed, Function function);

  // Errors of the source and the function, and data.field: the function changed the sequences, or
  // left a tensor or a field that does not fit them.
  SOMA_INLINE bool next(Batch& batch) override;

  SOMA_INLINE Position position() const override;
  SOMA_INLINE void seek(Position position) override;
  SOMA_INLINE std::uint64_t batches(std::uint64_t epoch) const override;
  SOMA_INLINE std::uint64_t hash() const override;
  SOMA_INLINE void describe(Record& record) const override;
  SOMA_INLINE std::size_t largest_rows() const override;
  SOMA_INLINE std::size_t largest_sequences() const override;

 private:
  BatchSource& source_;
  std::string name_;
  std::uint64_t seed_;
  Function function_;
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/mapped_source.ipp>
#endif
