#pragma once
// GpsimdEngine: eight general-purpose processors with 16 partitions each. It reaches SBUF only. It
// has element-wise instructions, and instructions that compute with positions: index patterns,
// gathers, and moves between partitions. Indices are int32: this model has no 16-bit and no
// unsigned 32-bit integers, which the hardware uses here.

#include <soma/neuroncore/engines/lane_engine.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// One nested loop of an index pattern: `size` steps.
struct AffineStep {
  std::int32_t step = 1;
  std::size_t size = 1;
};
// offset + partition * channel_multiplier + the steps of up to four loops, the last innermost.
// Partitions count from the tile's first. The arithmetic is int32 and wraps around.
struct Affine {
  std::vector<AffineStep> loops;
  std::int32_t offset = 0;
  std::int32_t channel_multiplier = 0;
};

// The work that the kernel of a custom operator did.
struct CustomWork {
  std::uint64_t bytes_read = 0, bytes_written = 0;  // bytes of device memory
  double nanoseconds = 0;
};

class GpsimdEngine : public LaneEngine<GpsimdEngine, Engine::gpsimd> {
 public:
  using LaneEngine::LaneEngine;

  // dst = a op b. If a, b and dst are all int32 or all uint32, add, subtract and multiply are exact
  // and wrap around (this model's policy; overflow behaviour is not published). power is computed
  // in double and rounded once. All other cases are computed in fp32, as on the Vector engine.
  GpsimdEngine& tensor_tensor(const Tile& dst, const Tile& a, const Tile& b, Alu op,
                              const Rounded& rounded = {}, SourceLine source = calling_line());

  // dst = op data. The only operator of this engine here is rsqrt: 1 / sqrt(data), computed in
  // double and rounded once (the hardware's bound is not published).
  GpsimdEngine& tensor_scalar(const Tile& dst, const Tile& data, Alu op,
                              const Rounded& rounded = {}, SourceLine source = calling_line());

  // dst = src: bit for bit if the types are equal, else through fp32.
  GpsimdEngine& copy(const Tile& dst, const Tile& src, const Rounded& rounded = {},
                     SourceLine source = calling_line());
  GpsimdEngine& memset(const Tile& dst, const Constant& value, const Rounded& rounded = {},
                       SourceLine source = calling_line());

  // ---- with positions (impl/gpsimd_index.ipp)

  // dst = the values of a pattern, whose length is the number of elements in a partition of dst.
  GpsimdEngine& iota(const Tile& dst, const Affine& affine, const Rounded& rounded = {},
                     SourceLine source = calling_line());

  // dst = value compare 0 ? data : on_false, with the values of a pattern. Elements of data keep
  // their bits if dst has their type, else they go through fp32.
  GpsimdEngine& affine_select(const Tile& dst, const Tile& data, const Affine& affine,
                              const Constant& on_false, Alu compare = Alu::equal,
                              const Rounded& rounded = {}, SourceLine source = calling_line());

  // Each processor owns 16 partitions. Its slice of the index tile, read with the partition varying
  // fastest, lists the starts of pieces of `piece` elements in its partitions. The first `pieces`
  // of them (at most 4096) are put side by side in dst, bit for bit, alike for all 16 partitions;
  // dst holds exactly these pieces. `piece` is 1, 2, 4, 8, 16 or 32. Indices are uint16 or (this
  // model's) int32. Error neuroncore.undefined: a piece that leaves the partition.
  GpsimdEngine& local_gather(const Tile& dst, const Tile& src, const Tile& indices,
                             std::size_t pieces, std::size_t piece = 1,
                             SourceLine source = calling_line());

  // dst[j] = src[indices[j]] in each partition, bit for bit. Indices are uint32 or (this model's)
  // int32. Error neuroncore.undefined: an index beyond the partition's elements.
  GpsimdEngine& n_gather(const Tile& dst, const Tile& src, const Tile& indices,
                         SourceLine source = calling_line());

  // dst [1, N] = the reduction of data [P, N] over its partitions, in ascending order: add and
  // maximum in fp32 (for int32 and uint32 exact, with wrap-around), bitwise_or and bitwise_and on
  // the stored bits.
  GpsimdEngine& partition_reduce(const Tile& dst, const Tile& data, Alu op,
                                 const Rounded& rounded = {}, SourceLine source = calling_line());

  // Copies the only partition of src to every partition of dst, bit for bit.
  GpsimdEngine& partition_broadcast(const Tile& dst, const Tile& src,
                                    SourceLine source = calling_line());

  // `ids` [1, n] holds the number of a sequence for each element, or 0 for padding. dst [1, 2n]
  // gets the begin of the run of equal ids around each element (n for padding), then one past the
  // end of the run (-1 for padding). Both are fp32 or int32.
  GpsimdEngine& sequence_bounds(const Tile& dst, const Tile& ids,
                                SourceLine source = calling_line());

  // From NeuronCore-v3 on: in partitions 0, 16 .. 112 of dst [P, n + 1] (int32), the numbers of the
  // elements of src [P, n] (fp32 or int32) that are not zero, each plus `offset`, then `padding`,
  // and in the last place their count. Other partitions stay. Error neuroncore.generation.
  GpsimdEngine& nonzero_with_count(const Tile& dst, const Tile& src, std::int32_t offset = 0,
                                   std::int32_t padding = -1, SourceLine source = calling_line());

  // ---- custom operators

  // A kernel of a custom operator on the eight processors: run() computes it and returns its work.
  // Its operands are tensors in device memory, in place.
  template <class Run>
  GpsimdEngine& custom_operator(std::span<const Tensor> reads, std::span<const Tensor> writes,
                                const Run& run, SourceLine source = calling_line()) {
    const Running running = core_.begin(source, Opcode::custom_operator, lane, {}, {});
    for (const Tensor& tensor : reads) touch(source, running.at, tensor, false);
    for (const Tensor& tensor : writes) touch(source, running.at, tensor, true);
    const CustomWork work = run();
    core_.statistics.hbm_bytes_read += work.bytes_read;
    core_.statistics.hbm_bytes_written += work.bytes_written;
    if (core_.options.record)
      core_.recorder.set_work(work.bytes_read + work.bytes_written, work.nanoseconds);
    return *this;
  }

 private:
  // Operands of this engine lie in SBUF.
  static void check_reached(const CallSite& call, std::initializer_list<Operand> operands);

  static void check_affine(const CallSite& call, const Affine& affine, const Tile& dst);
  void check_local_gather(const CallSite& call, const Tile& dst, const Tile& src,
                          const Tile& indices, std::size_t pieces, std::size_t piece);
  // `one` has one partition, with as many elements as a partition of `many`.
  void check_one_partition(const CallSite& call, const Operand& one, const Operand& many);
  // The index of `size` elements from that index on in a partition of the tile. `bits`: the index
  // as it is stored, with zeros above.
  static std::size_t checked_index(const CallSite& call, const Tile& indices, std::uint32_t bits,
                                   std::size_t size, const Tile& tile);

  // The values of partition 0.
  static std::vector<std::int32_t> pattern(const Affine& affine);
  // start + step * times, modulo 2^32.
  static std::int32_t wrapped(std::int32_t start, std::int32_t step, std::size_t times);
  static bool holds(Alu compare, std::int32_t value);

  void reduce_integers(const Tile& dst, const Tile& data, Alu op);
  void reduce_floats(const Tile& dst, const Tile& data, Alu op, const Rounded& rounded);
  // Touches all bytes from the first to the last of a tensor, gaps included.
  void touch(const SourceLine& source, Position at, const Tensor& tensor, bool writes);
  void on_integers(const Tile& dst, const Tile& a, const Tile& b, Alu op);
  void on_floats(const Tile& dst, const Tile& a, const Tile& b, Alu op, const Rounded& rounded);
  // As IEEE 754's pow, from a double with an error below one unit.
  static float power(float base, float exponent);
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/engines/impl/gpsimd_engine.ipp>
#include <soma/neuroncore/engines/impl/gpsimd_index.ipp>
#endif
