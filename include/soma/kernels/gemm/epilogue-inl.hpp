// The last part of a product: the steps of Epilogue, applied to rows of finished sums while they
// are in the first-level cache. Each step is a short loop of its own. That costs a load and a store
// per vector and step, little beside the k multiply-adds before, and has two advantages: each step
// is rounded by itself, because no compiler can contract a product and a sum that meet in memory;
// and the number of compiled loops is the number of steps, not of their combinations. If a bias is
// the only step and c is bf16, Bf16Exit writes a block of sums at a time instead, from registers if
// the CPU can round there.

#if defined(SOMA_KERNELS_GEMM_EPILOGUE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_EPILOGUE_INL_HPP
#undef SOMA_KERNELS_GEMM_EPILOGUE_INL_HPP
#else
#define SOMA_KERNELS_GEMM_EPILOGUE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/element/dropout-inl.hpp>
#include <soma/kernels/element/functions-inl.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>
#include <soma/simd/code_runs-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_in_place(const float* addend, std::size_t count,
                                                       float* values) {
  map_vectors<2>({values, addend}, values, count,
                 [](FloatVector x, FloatVector y) HWY_ATTR { return hn::Add(x, y); });
}

template <Unary kFunction>
HWY_NOINLINE HWY_MAYBE_UNUSED static void activate_run(std::size_t count, float* values) {
  map_vectors<1>({values}, values, count,
                 [](FloatVector x) HWY_ATTR { return unary_lanes<kFunction>(Floats(), x); });
}

static inline void activate_in_place(Activation function, std::size_t count, float* values) {
  switch (function) {
    case Activation::none:
      return;
    case Activation::relu:
      return activate_run<unary_of(Activation::relu)>(count, values);
    case Activation::gelu:
      return activate_run<unary_of(Activation::gelu)>(count, values);
    case Activation::gelu_tanh:
      return activate_run<unary_of(Activation::gelu_tanh)>(count, values);
    case Activation::tanh:
      return activate_run<unary_of(Activation::tanh)>(count, values);
    case Activation::sigmoid:
      return activate_run<unary_of(Activation::sigmoid)>(count, values);
    case Activation::silu:
      return activate_run<unary_of(Activation::silu)>(count, values);
    case Activation::gelu_sigmoid:
      return activate_run<unary_of(Activation::gelu_sigmoid)>(count, values);
    case Activation::gelu_clipped:
      return activate_run<unary_of(Activation::gelu_clipped)>(count, values);
    case Activation::mish:
      return activate_run<unary_of(Activation::mish)>(count, values);
    case Activation::leaky_relu:
      return activate_run<unary_of(Activation::leaky_relu)>(count, values);
    case Activation::relu6:
      return activate_run<unary_of(Activation::relu6)>(count, values);
    case Activation::relu_squared:
      return activate_run<unary_of(Activation::relu_squared)>(count, values);
    case Activation::laplace:
      return activate_run<unary_of(Activation::laplace)>(count, values);
  }
}

namespace {  // internal linkage: units with other flags have their own

// Writes blocks of sums to c at once, while they are in the first-level cache. It applies if the
// only steps are a bias and bf16's rounding to nearest: for most gradients of activations and
// weights, and for layers without an activation.
struct Bf16Exit {
  std::byte* codes;  // the codes from the first row and column on
  std::size_t stride;
  const float* bias;  // the bias from the first column on, or nullptr
  bool stream;        // past the caches, of dot products, which leave in whole lines of theirs

  // Prefetches the part of c that a block will be written to: otherwise the stores would wait for
  // memory, and the next block's sums would wait for the stores.
  HWY_INLINE void fetch(std::size_t row, std::size_t rows, std::size_t column) const {
    if (stream) return;
    const std::byte* to = codes + 2 * (row * stride + column);
    for (std::size_t i = 0; i < rows; ++i) hwy::Prefetch(to + i * 2 * stride);
  }

  // Writes a block of some rows and micro_columns columns. The rows of sums are micro_columns
  // floats apart.
  HWY_NOINLINE void write(std::size_t row, std::size_t rows, std::size_t column,
                          const float* sums) const {
    const Lanes32 d;
    const Floats df;
    const hn::Rebind<std::uint16_t, Lanes32> half;
    std::byte* to = codes + 2 * (row * stride + column);
    for (std::size_t i = 0; i < rows; ++i, to += 2 * stride, sums += micro_columns)
      for (std::size_t j = 0; j < micro_columns; j += float_lanes) {
        auto sum = hn::Load(df, sums + j);
        if (bias != nullptr) sum = hn::Add(sum, hn::LoadU(df, bias + column + j));
        const auto rounded = bf16_codes<false>(d, hn::BitCast(d, sum), hn::Zero(d));
        store_bytes(half, hn::TruncateTo(half, rounded), to + 2 * j);
      }
  }

#if SOMA_HAS_BF16_DOT
  // Writes a block from registers, two for each row, by an instruction that treats subnormal
  // numbers as zero. A dot product is never subnormal, but its sum with a bias or with other dot
  // products (`added`) may be.
  template <std::size_t... i>
  HWY_INLINE void write(std::index_sequence<i...>, FloatVector* sums, bool added, std::size_t row,
                        std::size_t rows, std::size_t column) const {
    static_assert(micro_vectors == 2);
    const Floats d;
    if (bias != nullptr) {
      const FloatVector first = hn::LoadU(d, bias + column);
      const FloatVector second = hn::LoadU(d, bias + column + float_lanes);
      ((sums[2 * i] = hn::Add(sums[2 * i], first)), ...);
      ((sums[2 * i + 1] = hn::Add(sums[2 * i + 1], second)), ...);
      added = true;
    }
    if (added && HWY_UNLIKELY(any_subnormal(sums[2 * i]..., sums[2 * i + 1]...))) {
      alignas(64) float block[sizeof...(i) * micro_columns];
      (hn::Store(sums[2 * i], d, block + i * micro_columns), ...);
      (hn::Store(sums[2 * i + 1], d, block + i * micro_columns + float_lanes), ...);
      return Bf16Exit{codes, stride, nullptr, false}.write(row, (std::min)(rows, sizeof...(i)),
                                                           column, block);
    }
    std::byte* const to = codes + 2 * (row * stride + column);
    const std::size_t row_bytes = 2 * stride;
    (write_row(i < rows, sums[2 * i], sums[2 * i + 1], to + i * row_bytes), ...);
  }

  // Writes a row of dot products in whole cache lines, with half of the instructions of write().
  HWY_INLINE void write_products(std::size_t row, std::size_t column, FloatVector first,
                                 FloatVector second) const {
    FloatVector sums[] = {first, second};
    write(std::index_sequence<0>(), sums, true, row, 1, column);
  }

 private:
  HWY_INLINE void write_row(bool present, FloatVector first, FloatVector second,
                            std::byte* to) const {
    if (!present) return;
    const FloatVector both = nearest_bf16(first, second);
    if (stream)
      hn::Stream(both, Floats(), reinterpret_cast<float*>(to));
    else
      hn::StoreU(both, Floats(), reinterpret_cast<float*>(to));
  }
#endif
};

class EpilogueWriter {
 public:
  explicit EpilogueWriter(const GemmArgs& args)
      : epilogue_(args.epilogue),
        old_c_({.data = args.c.data, .row_stride = args.c.row_stride}),
        residual_(args.epilogue.residual),
        c_(args.c, args.stream_c),
        pre_activation_(args.epilogue.pre_activation),
        in_place_(c_.direct() && !c_.streams() && !epilogue_.accumulate &&
                  epilogue_.residual.data != args.c.data),
        by_blocks_(c_.rounds_to_bf16() && !epilogue_.accumulate &&
                   epilogue_.pre_activation.data == nullptr &&
                   epilogue_.activation == Activation::none && epilogue_.dropout.threshold == 0 &&
                   epilogue_.residual.data == nullptr && epilogue_.amax == nullptr) {}

  // True if sums may grow in c itself, at place(row, column): c has the sums' type, and no old
  // value of c is read.
  bool in_place() const { return in_place_; }
  float* place(std::size_t row, std::size_t column) { return c_.place(row, column); }

  // True if blocks may be written through a Bf16Exit. exit() makes one for a block at a row and
  // column.
  bool by_blocks() const { return by_blocks_; }
  Bf16Exit exit(std::size_t row, std::size_t column) const {
    std::byte* const codes = c_.at(row, column);
    constexpr std::size_t line = line_floats * sizeof(float);
    const bool whole =
        reinterpret_cast<std::uintptr_t>(codes) % line == 0 && 2 * c_.row_stride() % line == 0;
    return {codes, c_.row_stride(), epilogue_.bias != nullptr ? epilogue_.bias + column : nullptr,
            c_.streams() && whole};
  }

  // Writes rows and columns of c from (row, column) on. The sums are `stride` floats apart, and the
  // function overwrites them. At most a row chunk of columns.
  void apply(std::size_t row, std::size_t column, std::size_t rows, std::size_t columns,
             float* sums, std::size_t stride) {
    for (std::size_t i = 0; i < rows; ++i) apply_run(row + i, column, columns, sums + i * stride);
  }
  // Makes c visible to other threads. Call it after the last apply().
  void finish() const { c_.flush(); }

 private:
  void apply_run(std::size_t row, std::size_t column, std::size_t count, float* values) {
    const Epilogue& e = epilogue_;
    if (e.accumulate) add_in_place(old_c_.read(row, column, count, chunk_.values), count, values);
    if (e.bias != nullptr) add_in_place(e.bias + column, count, values);
    if (e.pre_activation.data != nullptr) pre_activation_.write(row, column, values, count);
    activate_in_place(e.activation, count, values);
    if (e.dropout.threshold != 0) {
      const DropoutArgs& d = e.dropout;
      drop_in_place(d, draw_index(d.draw, d.draw_row_stride, d.row_indices, row, column), count,
                    values);
    }
    if (e.residual.data != nullptr)
      add_in_place(residual_.read(row, column, count, chunk_.values), count, values);
    if (e.amax != nullptr) *e.amax = (std::max)(*e.amax, largest_finite(values, count));
    if (values != place(row, column)) c_.write(row, column, values, count);
  }

  Epilogue epilogue_;
  MatrixReader old_c_, residual_;
  MatrixWriter c_, pre_activation_;
  bool in_place_, by_blocks_;
  ChunkBuffer chunk_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
