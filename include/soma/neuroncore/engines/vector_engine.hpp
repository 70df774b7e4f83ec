#pragma once
// VectorEngine: 128 lanes of element-wise arithmetic, scans, searches and shuffles, selection,
// batch statistics, dropout and small transposes. In arithmetic, inputs are widened to fp32, every
// operator rounds once to fp32, and the result is rounded once more to the type of dst. Bit
// operators work on integers as they are stored.

#include <soma/neuroncore/engines/alu.hpp>
#include <soma/neuroncore/engines/lane_engine.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// The source partition for each of the 32 partitions of a quadrant; shuffle_keep: no source, dst
// stays.
using ShuffleMask = std::array<std::uint8_t, 32>;
inline constexpr std::uint8_t shuffle_keep = 255;

class VectorEngine : public LaneEngine<VectorEngine, Engine::vector> {
 public:
  using LaneEngine::LaneEngine;

  // ---- arithmetic (impl/vector_arithmetic.ipp)

  // dst = a op b. a and b must not both lie in PSUM.
  VectorEngine& tensor_tensor(const Tile& dst, const Tile& a, const Tile& b, Alu op,
                              const Rounded& rounded = {}, SourceLine source = calling_line());

  // dst = (data op0 s0) op1 s1. Both operators are arithmetic, or both work on bits (then data and
  // dst are integers and s0, s1 constants).
  VectorEngine& tensor_scalar(const Tile& dst, const Tile& data, Alu op0, const ScalarOperand& s0,
                              Alu op1 = Alu::none, const ScalarOperand& s1 = {},
                              const ScalarOptions& options = {},
                              SourceLine source = calling_line());

  // dst = data op0 s0; result [P, 1] = reduction over dst, before rounding.
  VectorEngine& tensor_scalar_reduce(const Tile& dst, const Tile& data, Alu op0,
                                     const ScalarOperand& s0, Alu reduction, const Tile& result,
                                     const ScalarOptions& options = {},
                                     SourceLine source = calling_line());

  // dst = (data op0 s0) op1 operand1. data and operand1 must not both lie in PSUM.
  VectorEngine& scalar_tensor_tensor(const Tile& dst, const Tile& data, Alu op0,
                                     const ScalarOperand& s0, Alu op1, const Tile& operand1,
                                     const ScalarOptions& options = {},
                                     SourceLine source = calling_line());

  // dst = the reduction of data over its last `dimensions` free dimensions, negated on request. In
  // fp32; the operators and, or and xor on the stored bits of integers.
  VectorEngine& tensor_reduce(const Tile& dst, const Tile& data, Alu op, std::size_t dimensions = 1,
                              bool negate = false, const Rounded& rounded = {},
                              SourceLine source = calling_line());

  // dst = 1 / src, correctly rounded (the hardware's bound is not published).
  VectorEngine& reciprocal(const Tile& dst, const Tile& src, const Rounded& rounded = {},
                           SourceLine source = calling_line());

  // dst = src: bit for bit if the types are equal, else through fp32.
  VectorEngine& copy(const Tile& dst, const Tile& src, const Rounded& rounded = {},
                     SourceLine source = calling_line());
  VectorEngine& memset(const Tile& dst, const Constant& value, const Rounded& rounded = {},
                       SourceLine source = calling_line());

  // ---- along a partition or across a quadrant (impl/vector_search.ipp)

  // r[i] = (a[i] op0 r[i - 1]) op1 b[i] along each partition, from r[-1] = initial; dst = r. The
  // state stays fp32. reverse0: r[i - 1] op0 a[i]; reverse1: b[i] op1 (...). a and b must not both
  // lie in PSUM.
  VectorEngine& tensor_tensor_scan(const Tile& dst, const Tile& a, const Tile& b,
                                   const ScalarOperand& initial, Alu op0, Alu op1,
                                   const ScalarOptions& options = {},
                                   SourceLine source = calling_line());

  // r[i] = (data[i] op0 s0) op1 r[i - 1] along each partition; op1 is add, subtract, multiply,
  // maximum or minimum; dst = r. r[-1] is `start`, or without it 0, 0, 1, -infinity and infinity.
  // Not for int32 and uint32.
  VectorEngine& tensor_scalar_cumulative(const Tile& dst, const Tile& data, Alu op0,
                                         const ScalarOperand& s0, Alu op1,
                                         std::optional<Constant> start = {},
                                         const ScalarOptions& options = {},
                                         SourceLine source = calling_line());

  // dst [P, 8] = the eight largest elements of each partition, in descending order, compared in
  // fp32. 8 to 16384 elements in at most two free dimensions. NaN counts as smaller than all others
  // (its treatment is not published); if fewer than eight others exist, -infinity follows them.
  VectorEngine& max8(const Tile& dst, const Tile& src, SourceLine source = calling_line());

  // dst [P, 8] of uint16, uint32 or int32 (the last is this model's): the index of the first
  // occurrence of each of `values` [P, 8] in data, compared in fp32; all bits set if there is none.
  // Equal values take occurrences in ascending order.
  VectorEngine& find_index8(const Tile& dst, const Tile& data, const Tile& values,
                            SourceLine source = calling_line());

  // dst = data with the first occurrence of each of `values` [P, 8] replaced, compared in fp32;
  // among equal values the last slot takes the first occurrence. `indices` [P, 8], if given: the
  // index that each slot replaced, in the types and with the missing value of find_index8(). An
  // element is replaced at most once, and comparisons use its original value.
  VectorEngine& match_replace8(const Tile& dst, const Tile& data, const Tile& values,
                               const Constant& replacement, const Tile* indices = nullptr,
                               const Rounded& rounded = {}, SourceLine source = calling_line());

  // Within each quadrant of 32 partitions, partition i of dst = partition mask[i] of src, bit for
  // bit; with shuffle_keep partition i stays. dst may be src.
  VectorEngine& stream_shuffle(const Tile& dst, const Tile& src, const ShuffleMask& mask,
                               SourceLine source = calling_line());

  // dst = the random 32-bit word of each element's position; narrower integers keep its lowest
  // bits. The hardware's generator is not published: these are the library's own draws.
  VectorEngine& rng(const Tile& dst, const DrawPosition& position,
                    SourceLine source = calling_line());

  // ---- selection, statistics, dropout, transposes (impl/vector_engine.ipp)

  // dst = predicate != 0 ? on_true : on_false. on_false is a constant or [P, 1]. predicate is int8,
  // uint8, int16, uint16 or boolean; on_true is not tf32, int32 or uint32. on_true and predicate
  // must not both lie in PSUM.
  VectorEngine& select(const Tile& dst, const Tile& predicate, const Tile& on_true,
                       const ScalarOperand& on_false, const Rounded& rounded = {},
                       SourceLine source = calling_line());

  // dst = src where predicate != 0; all other elements of dst stay. Bit for bit: src and dst have
  // one type. predicate is uint8, uint16, uint32, boolean or (this model's) int32. src and
  // predicate must not both lie in PSUM.
  VectorEngine& copy_predicated(const Tile& dst, const Tile& src, const Tile& predicate,
                                SourceLine source = calling_line());

  // Six numbers for each partition: count, mean and count * variance of the elements with even
  // index, then of the elements with odd index. At most 512 elements.
  VectorEngine& bn_stats(const Tile& dst, const Tile& data, SourceLine source = calling_line());

  // dst [P, 2] = mean and population variance of the triples (count, mean, count * variance) in
  // data, in their order.
  VectorEngine& bn_aggr(const Tile& dst, const Tile& data, SourceLine source = calling_line());

  // dst = src with elements zeroed whose random word is below threshold (probability * 2^32). Kept
  // elements are not scaled. The draws belong to the elements' positions. A threshold of 2^32
  // zeroes all elements; a threshold of 0 is copy(). Otherwise kept elements go through fp32.
  VectorEngine& dropout(const Tile& dst, const Tile& src, std::uint64_t threshold,
                        const DrawPosition& position, SourceLine source = calling_line());

  // dst = src transposed, up to 32 x 32, of one type: it only moves data.
  VectorEngine& transpose(const Tile& dst, const Tile& src, SourceLine source = calling_line());

  // ---- of later generations (impl/vector_later.ipp); error neuroncore.generation without them

  // From NeuronCore-v3 on: dst = data where (i op0 bound0) and (i op1 bound1), i being the
  // element's number in its partition plus `first`; elsewhere the lowest fp32. The operators are
  // equal, less, less_equal, greater and greater_equal, bounds [P, 1] fp32. result [P, 1], if
  // given: the largest of the elements, before rounding.
  VectorEngine& range_select(const Tile& dst, const Tile& data, Alu op0, const Tile& bound0,
                             Alu op1, const Tile& bound1, std::int32_t first = 0,
                             const Tile* result = nullptr, const Rounded& rounded = {},
                             SourceLine source = calling_line());

  // From NeuronCore-v4 on: dst = exp(src - largest); result [P, 1], if given: the sum of dst before
  // rounding. Its error is not published: here it is the Scalar engine's function.
  VectorEngine& exponential(const Tile& dst, const Tile& src, const ScalarOperand& largest = {},
                            const Tile* result = nullptr, const Rounded& rounded = {},
                            SourceLine source = calling_line());

  // From NeuronCore-v4 on: dst = numbers of a uniform distribution from low to below high, drawn by
  // the elements' positions. The hardware's states are not published: these are the library's own
  // draws.
  VectorEngine& rand2(const Tile& dst, const ScalarOperand& low, const ScalarOperand& high,
                      const DrawPosition& position, const Rounded& rounded = {},
                      SourceLine source = calling_line());

  // From NeuronCore-v4 on: bf16 or fp16 src [P, 4 N] as MX numbers: dst, a view packed4() [P, N x
  // 4] of fp8 e4m3fn or e5m2, and a scale of each 8 partitions of each pack, in the layout of
  // engines/microscaling.hpp. The scale is 2^(floor(log2 amax) - emax + 1), so nothing saturates;
  // of zeros 2^-127. Codes are rounded to nearest even; a group that has NaN or infinity gets the
  // scale NaN (both undisclosed). Error neuroncore.rule.
  VectorEngine& quantize_mx(const Tile& dst, const Tile& src, const Tile& scales,
                            SourceLine source = calling_line());

 private:
  // ---- checks

  static void check_operator(const CallSite& call, Alu op);
  static void check_arithmetic(const CallSite& call, Alu op);
  static void check_binary(const CallSite& call, Alu op);
  static void check_reduction(const CallSite& call, Alu op);
  static void check_fold(const CallSite& call, Alu op);
  // Checks for integers of one width.
  static void check_bits(const CallSite& call, Alu op, std::initializer_list<Operand> operands);
  static void check_unary(const CallSite& call, Alu op, const Operand& named, float value,
                          bool reverse);
  void check_scalar(const CallSite& call, const Tile& dst, const Tile& data, Alu op0,
                    const ScalarOperand& s0, Alu op1, const ScalarOperand& s1,
                    const ScalarOptions& options);

  // ---- elements

  void scalar_step(Alu op, const float* x, float scalar, bool reverse, float* out,
                   std::size_t count);
  float reduce(Alu op, const float* x, std::size_t count) const;
  // dst = a op b, or a op constant.
  void on_bits(const CallSite& call, const Tile& dst, const Tile& a, const Tile* b,
               std::uint32_t constant, Alu op, bool reverse);
  void fold_bits(const Tile& dst, const Tile& data, Alu op, std::size_t folded);
  void fold_floats(const Tile& dst, const Tile& data, Alu op, std::size_t folded, bool negate,
                   const Rounded& rounded);

  // ---- searches

  void check_eight(const CallSite& call, const Operand& operand, const Tile& data);
  void check_initial(const CallSite& call, const ScalarOperand& initial, const Tile& data);

  // Element i of all partitions, then element i + 1.
  std::vector<float> turned(const Tile& tile);
  // Calls step(i, state) for each element and rounds the states, one of each partition, into dst.
  template <class Step>
  void scan(const Tile& dst, std::vector<float> state, const Rounded& rounded, const Step& step);

  // run(p, elements, eight values) for each partition.
  template <class Run>
  void search(const Tile& data, const Tile& values, const Run& run);
  // An index of -1 is written as all bits set.
  void write_indices(const Tile& tile, std::size_t p, const std::array<std::int32_t, 8>& indices);
  // The first occurrence of the value outside of the taken indices; -1: none.
  static std::int32_t find(const float* x, std::size_t count, float value,
                           const std::int32_t* taken, const std::int32_t* taken_end);
  void quantize_group(const std::vector<float>& x, std::size_t packs, FloatFormat format,
                      std::vector<float>& scaled, std::vector<std::uint8_t>& codes) const;
  // count, mean, count * variance of n elements. Overwrites the elements.
  void statistics(float* x, std::size_t n, float* out) const;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/engines/impl/vector_arithmetic.ipp>
#include <soma/neuroncore/engines/impl/vector_engine.ipp>
#include <soma/neuroncore/engines/impl/vector_later.ipp>
#include <soma/neuroncore/engines/impl/vector_search.ipp>
#endif
