#pragma once
// The kernels of this folder share these inputs, the comparison with double arithmetic, and the
// time that the clock predicts.

#include <soma/neuroncore_clock.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string_view>
#include <vector>

namespace kernels {

namespace nc = soma::neuroncore;
using nc::Accumulate;
using nc::Alu;
using nc::Function;
using nc::Tile;
using soma::DType;
using soma::Tensor;

inline constexpr std::size_t lanes = 128;  // partitions of a core

// The relative error of one rounding, and of n roundings in a row.
inline constexpr double fp32_unit = 0x1p-24, bf16_unit = 0x1p-9;
constexpr double roundings(double n, double unit = fp32_unit) { return n * unit / (1 - n * unit); }
// The relative error of an activation function: 5 units in the last place (docs/neuroncore.md).
inline constexpr double function_error = 10 * fp32_unit;

// Draws of a normal distribution, as fp32 or bf16.
inline Tensor normal(soma::Context& context, const soma::Shape& shape, std::uint32_t stream,
                     DType dtype = DType::fp32) {
  const Tensor drawn = Tensor::empty(context, shape);
  soma::fill_normal(context, drawn.mutable_span<float>(), {.seed = 71, .stream = stream});
  if (dtype == DType::fp32) return drawn;
  Tensor rounded = Tensor::empty(context, shape, dtype);
  soma::convert(context, drawn.span<float>(), rounded.mutable_span<soma::bf16>());
  return rounded;
}

// The elements of a tensor of fp32, bf16 or int32.
inline std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> result(tensor.elements());
  const auto copy = [&](const auto& span) {
    std::transform(span.begin(), span.end(), result.begin(),
                   [](auto value) { return double(float(value)); });
  };
  if (tensor.dtype() == DType::bf16)
    copy(tensor.span<soma::bf16>());
  else if (tensor.dtype() == DType::int32)
    copy(tensor.span<std::int32_t>());
  else
    copy(tensor.span<float>());
  return result;
}

// The largest error as a share of what is allowed. A NaN is an infinite error.
class Errors {
 public:
  void add(double result, double wanted, double allowed) {
    const double error = std::fabs(result - wanted);
    const double share = error == 0 ? 0 : error / allowed;
    largest_ =
        std::isnan(share) ? std::numeric_limits<double>::infinity() : (std::max)(largest_, share);
  }
  double largest() const { return largest_; }

 private:
  double largest_ = 0;
};

// Runs a kernel on a core. To read memory that nobody wrote is an error.
template <class Kernel>
void run(soma::Context& context, const Kernel& kernel) {
  auto core = nc::make_core(context, nc::trn1(), {.uninitialised = nc::Uninitialised::error});
  kernel(core);
  core.finish();
}

// The time that the clock predicts, by published rules. The kernel is recorded and not computed.
template <class Kernel>
double microseconds(soma::Context& context, const Kernel& kernel) {
  auto core = nc::make_core(context, nc::trn1(), {.record = true, .compute = false});
  kernel(core);
  core.finish();
  return nc::timeline(core.recorded(), core.machine()).ns * 1e-3;
}

// The program's exit code: 1 if an error is larger than allowed.
inline int verdict(const Errors& errors) {
  const bool right = errors.largest() <= 1;
  std::printf("%s: the largest error is %.2g of what is allowed\n", right ? "right" : "WRONG",
              errors.largest());
  return right ? 0 : 1;
}
inline void print_time(std::string_view shape, double us) {
  std::printf("predicted time of %.*s: %.1f us\n", int(shape.size()), shape.data(), us);
}

}  // namespace kernels
