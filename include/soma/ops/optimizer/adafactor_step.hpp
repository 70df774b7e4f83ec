#pragma once
// Adafactor's step (arXiv 1804.04235, as torch.optim.Adafactor): the squares of a matrix's gradient
// are stored as the means of its rows and of its columns. With g the gradient, of a parameter [...,
// R, C] in matrices of R x C:
//     r += share (mean of g^2 over columns - r), c += share (mean over rows - c),
//     v = r c / max(mean of r, floor);   of a vector  v += share (g^2 - v)
//     u = g / sqrt(max(v, floor^2))
//     w -= rate * weight_decay * w + s u / max(1, rms(u) / clip),
//     s = relative_step * max(least_scale, rms(w)).
// Sums are in double: over a row or a column in ascending order; squares of the whole parameter
// first by rows, then over the row sums. A sparse gradient counts as zero elsewhere.

#include <soma/numeric/fused.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/optimizer/optimizer_steps.hpp>
#include <soma/ops/optimizer/settings.hpp>
#include <soma/ops/plain_call.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE {

namespace detail {

// A parameter as matrices; a vector, or a single number, is one row, and is not factored.
struct FactoredShape {
  std::size_t matrices = 1, rows = 1, columns = 1;
  bool factored = false;

  explicit FactoredShape(const Shape& shape) : factored(shape.rank() > 1) {
    columns = shape.columns();
    if (!factored) return;
    rows = shape[shape.rank() - 2];
    for (std::size_t i = 0; i + 2 < shape.rank(); ++i) matrices *= shape[i];
  }
  // The shapes of the two states; a vector has one state, of its own shape.
  Shape first(const Shape& weight) const { return factored ? Shape{matrices, rows} : weight; }
  Shape second() const { return Shape{matrices, columns}; }
};

inline void adafactor_shape(const ShapeCall& call) {
  constexpr std::string_view name = "adafactor step";
  step_shape<AdafactorSetting, 0>(call);
  const Tensor& weight = call.inputs[0];
  const FactoredShape sizes(weight.shape());
  const auto check = [&](std::size_t i, const Shape& wanted) {
    const Tensor state = input_or_none(call.inputs, i);
    if (!state.defined())
      fail(error_id::operator_inputs, name, input_name(i), "not defined", "a state");
    check_shape(name, "state", state, wanted);
    check_fp32(name, "state", state);
    if (!state.contiguous())
      fail(error_id::tensor_not_contiguous, name, "state", state.describe() + " with gaps",
           "row-major elements");
  };
  check(3, sizes.first(weight.shape()));
  if (sizes.factored) check(4, sizes.second());
}

// old + share (next - old), as lerp.
inline float mixed(float old, double next, double share) {
  return static_cast<float>(
      fused_multiply_add(share, next - static_cast<double>(old), static_cast<double>(old)));
}

class AdafactorStep {
 public:
  explicit AdafactorStep(const OperatorCall& call)
      : context_(call.context),
        setting_(call.attributes.as<AdafactorSetting>()),
        weight_(call.inputs[0]),
        sizes_(weight_.shape()),
        update_(dense_gradient(call)),
        u_(update_.mutable_data<float>()),
        first_(call.inputs[3].mutable_data<float>()),
        second_(sizes_.factored ? call.inputs[4].mutable_data<float>() : nullptr) {}

  void run() {
    if (weight_.elements() == 0) return;
    if (sizes_.factored)
      step_means();
    else
      step_squares();
    const double update_size = root_mean_square(update_);
    const double weight_size = root_mean_square(plain(context_, weight_));
    const double scale = setting_.relative_step * (std::max)(setting_.least_scale, weight_size);
    const double clipped = scale / (std::max)(1.0, update_size / setting_.clip);
    apply(clipped);
  }

 private:
  // A copy of the gradient: it becomes the update.
  static Tensor dense_gradient(const OperatorCall& call) {
    const auto& setting = call.attributes.as<AdafactorSetting>();
    Tensor gradient = dense_step_gradient(call).tensor();
    if (gradient.dtype() != DType::fp32)
      gradient = in_type(call.context, gradient, DType::fp32);
    else if (!gradient.storage().unique())
      gradient = clone(call.context, gradient);
    if (setting.gradient_factor != 1)
      for (float& g : gradient.mutable_span<float>()) g *= setting.gradient_factor;
    return gradient;
  }

  void step_means() {
    const std::size_t rows = sizes_.rows, columns = sizes_.columns, matrix = rows * columns;
    const double share = setting_.share;
    for_ranges(context_, sizes_.matrices * rows, columns, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        double sum = 0;  // squares of floats are exact in double
        for (std::size_t c = 0; c < columns; ++c) {
          const auto g = static_cast<double>(u_[row * columns + c]);
          sum += g * g;
        }
        first_[row] = mixed(first_[row], sum / static_cast<double>(columns), share);
      }
    });
    for_ranges(context_, sizes_.matrices * columns, rows, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const float* from = u_ + i / columns * matrix + i % columns;
        double sum = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          const auto g = static_cast<double>(from[r * columns]);
          sum += g * g;
        }
        second_[i] = mixed(second_[i], sum / static_cast<double>(rows), share);
      }
    });
    for (std::size_t m = 0; m < sizes_.matrices; ++m) {
      double mean = 0;
      for (std::size_t r = 0; r < rows; ++r) mean += static_cast<double>(first_[m * rows + r]);
      const double inverse = 1 / (std::max)(mean / static_cast<double>(rows), setting_.floor);
      for_ranges(context_, rows, columns * 8, [&](std::size_t begin, std::size_t end) {
        for (std::size_t r = begin; r < end; ++r) {
          const double of_row = static_cast<double>(first_[m * rows + r]) * inverse;
          float* u = u_ + m * matrix + r * columns;
          for (std::size_t c = 0; c < columns; ++c)
            u[c] = divided(u[c], of_row * static_cast<double>(second_[m * columns + c]));
        }
      });
    }
  }
  void step_squares() {
    const double share = setting_.share;
    for_ranges(context_, sizes_.columns, 8, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const auto g = static_cast<double>(u_[i]);
        first_[i] = mixed(first_[i], g * g, share);
        u_[i] = divided(u_[i], static_cast<double>(first_[i]));
      }
    });
  }
  float divided(float g, double square) const {
    const double least = setting_.floor * setting_.floor;
    return static_cast<float>(static_cast<double>(g) / std::sqrt((std::max)(square, least)));
  }

  // The root mean square of all elements: first over each row in order, then over the row sums.
  double root_mean_square(const Tensor& tensor) const {
    const float* x = tensor.data<float>();
    const std::size_t columns = sizes_.columns, rows = tensor.elements() / columns;
    HeapVector<double> sums(context_.heap());
    sums.resize(rows);
    for_ranges(context_, rows, columns, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        double sum = 0;
        for (std::size_t c = 0; c < columns; ++c) {
          const auto value = static_cast<double>(x[row * columns + c]);
          sum += value * value;
        }
        sums[row] = sum;
      }
    });
    double total = 0;
    for (const double sum : sums) total += sum;
    return std::sqrt(total / static_cast<double>(tensor.elements()));
  }

  // w -= scale u, after w -= rate weight_decay w. Rows are separate if weights are rounded
  // stochastically, because draws are keyed by row and column of the parameter as a matrix.
  void apply(double scale) {
    const Tensor& weight = weight_;
    std::byte* weights = weight.mutable_raw();
    const std::size_t elements = weight.elements();
    const std::size_t columns = weight.rank() == 0 ? 1 : elements / weight.size(0);
    const DrawIndices indices(setting_, columns);
    const bool by_row = indices.rows_apart();
    const std::size_t block = by_row ? columns : 4096, blocks = (elements + block - 1) / block;
    const double decay = rounded(setting_.rate * static_cast<double>(setting_.weight_decay));
    if (decay != 0) {  // both at once, so that a weight is rounded once
      const Tensor now = plain(context_, weight);
      const float* w = now.data<float>();
      for_ranges(context_, elements, 2, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i)
          u_[i] = static_cast<float>(fused_multiply_add(
              scale, static_cast<double>(u_[i]), rounded(decay * static_cast<double>(w[i]))));
      });
    }
    const float factor = decay != 0 ? 1 : static_cast<float>(scale);
    for_ranges(context_, blocks, block * 4, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const StepRun run{.begin = i * block,
                          .draw_index = indices.any() ? indices.at(by_row ? i : i * block) : 0};
        LambArgs args{.count = (std::min)(block, elements - i * block)};
        args.weight = state_run(weight, weights, setting_.weight, setting_, StepSite::weight, run);
        args.update = u_ + run.begin;
        args.rate_times_trust = factor;
        context_.kernels().optimizer.lamb_apply(args);
      }
    });
  }

  Context& context_;
  const AdafactorSetting& setting_;
  const Tensor& weight_;
  FactoredShape sizes_;
  Tensor update_;
  float *u_, *first_, *second_;
};

inline void adafactor_host(const OperatorCall& call) { AdafactorStep(call).run(); }

}  // namespace detail

namespace ops {

// Inputs weight, gradient values, gradient rows (optional), means of rows and of columns; for a
// vector its squares instead. States are fp32.
inline constexpr Operator adafactor_step{.name = "adafactor step",
                                         .min_inputs = 2,
                                         .max_inputs = 5,
                                         .outputs = 0,
                                         .shape = &detail::adafactor_shape,
                                         .host = &detail::adafactor_host};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
