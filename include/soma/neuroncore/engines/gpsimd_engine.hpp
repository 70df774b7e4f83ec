#pragma once
// GpsimdEngine: eight general-purpose processors with 16 partitions each. It reaches SBUF only.
// Element-wise instructions are here; engines/gpsimd_index.hpp has the instructions that compute
// with positions.

#include <soma/neuroncore/engines/gpsimd_index.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// The work that the kernel of a custom operator did.
struct CustomWork {
  std::uint64_t bytes_read = 0, bytes_written = 0;  // bytes of device memory
  double nanoseconds = 0;
};

class GpsimdEngine : public GpsimdIndex<GpsimdEngine> {
 public:
  using GpsimdIndex::GpsimdIndex;

  // dst = a op b. If a, b and dst are int32, add, subtract and multiply are exact and wrap around
  // (this model's policy; overflow behaviour is not published). power is computed in double and
  // rounded once. All other cases are computed in fp32, as on the Vector engine.
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
#endif
