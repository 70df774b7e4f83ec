#pragma once
// VectorEngine: 128 lanes of element-wise arithmetic (engines/vector_arithmetic.hpp), scans,
// searches and shuffles (engines/vector_search.hpp), selection, batch statistics, dropout and small
// transposes.

#include <soma/neuroncore/engines/vector_search.hpp>
#include <soma/numeric/portable_math.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

class VectorEngine : public VectorSearch<VectorEngine> {
 public:
  using VectorSearch::VectorSearch;

  // dst = predicate != 0 ? on_true : on_false. on_false is a constant or [P, 1]. predicate is int8,
  // uint8 or boolean (the hardware also has int16 and uint16, which this model lacks). on_true and
  // predicate must not both lie in PSUM.
  VectorEngine& select(const Tile& dst, const Tile& predicate, const Tile& on_true,
                       const ScalarOperand& on_false, const Rounded& rounded = {},
                       SourceLine source = calling_line());

  // dst = src where predicate != 0; all other elements of dst stay. Bit for bit: src and dst have
  // one type. predicate is uint8, boolean or int32 (the hardware has uint8, uint16 and uint32; this
  // model has the first, and int32 instead of the last). src and predicate must not both lie in
  // PSUM.
  VectorEngine& copy_predicated(const Tile& dst, const Tile& src, const Tile& predicate,
                                SourceLine source = calling_line());

  // Six numbers for each partition: count, mean and count * variance of the elements with even
  // index, then of the elements with odd index. At most 512 elements.
  VectorEngine& bn_stats(const Tile& dst, const Tile& data, SourceLine source = calling_line());

  // dst [P, 2] = mean and population variance of the triples (count, mean, count * variance) in
  // data, in their order.
  VectorEngine& bn_aggr(const Tile& dst, const Tile& data, SourceLine source = calling_line());

  // dst = src with elements zeroed whose random word is below threshold (probability * 2^32). Kept
  // elements are not scaled. The draws belong to the elements' place. A threshold of 2^32 zeroes
  // all elements; a threshold of 0 is copy(). Otherwise kept elements go through fp32.
  VectorEngine& dropout(const Tile& dst, const Tile& src, std::uint64_t threshold,
                        const Place& place, SourceLine source = calling_line());

  // dst = src transposed, up to 32 x 32, of one type: it only moves data.
  VectorEngine& transpose(const Tile& dst, const Tile& src, SourceLine source = calling_line());

 private:
  // count, mean, count * variance of n elements. Overwrites the elements.
  void statistics(float* x, std::size_t n, float* out) const;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/engines/impl/vector_engine.ipp>
#endif
