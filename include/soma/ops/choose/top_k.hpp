#pragma once
// top_k: the k largest (or smallest) elements along one dimension, in order, and their indices.
// Among equal elements the first comes first; NaN comes before all numbers, either way. The
// gradient goes to the chosen elements.

#include <soma/ops/batch.hpp>
#include <soma/ops/choose/elements.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/run.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// Outputs: the elements, of x's type, and their indices along the dimension, int64.
inline void top_k_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<TopKSetting>();
  const Tensor& x = call.inputs[0];
  check_floating("top_k", "x", x);
  check_dimension("top_k", x, setting.dimension);
  if (setting.k > x.size(setting.dimension))
    fail(error_id::operator_value, "top_k", "k", std::to_string(setting.k),
         "at most the size of dimension " + std::to_string(setting.dimension) + " of " +
             x.describe());
  const Shape shape = x.shape().with(setting.dimension, setting.k);
  call.outputs[0] = {shape, x.dtype()};
  call.outputs[1] = {shape, DType::int64};
}

// True if element `a` of a line comes before element `b`; elements of the line lie `step` apart.
struct ComesBefore {
  const float* line;
  std::size_t step;
  bool smallest;
  bool value(float x, float y) const {
    const bool x_is_nan = x != x, y_is_nan = y != y;
    if (x_is_nan || y_is_nan) return x_is_nan && !y_is_nan;
    return smallest ? x < y : x > y;
  }
  bool operator()(std::int64_t a, std::int64_t b) const {
    const float x = line[static_cast<std::size_t>(a) * step],
                y = line[static_cast<std::size_t>(b) * step];
    return value(x, y) || (!value(y, x) && a < b);
  }
};

// The first element of each line in a run of adjacent lines, element by element.
inline void first_of_lines(const float* x, const Along& along, bool smallest, std::size_t lines,
                           std::int64_t* chosen) {
  const ComesBefore before{x, along.inner, smallest};
  std::fill_n(chosen, lines, std::int64_t{0});
  for (std::size_t i = 1; i < along.size; ++i)
    for (std::size_t n = 0; n < lines; ++n)
      if (before.value(x[i * along.inner + n],
                       x[static_cast<std::size_t>(chosen[n]) * along.inner + n]))
        chosen[n] = static_cast<std::int64_t>(i);
}

inline void top_k_numbers(const OperatorCall& call, const Along& along, const float* x) {
  const auto& setting = call.attributes.as<TopKSetting>();
  auto* chosen = call.outputs[1].mutable_data<std::int64_t>();
  const std::size_t k = setting.k, lines = along.outer * along.inner;
  for_ranges(call.context, lines, along.size * (k == 1 ? 1 : 8),
             [&](std::size_t begin, std::size_t end) {
               HeapVector<std::int64_t> order(call.context.heap());
               if (k > 1) order.resize(along.size);
               for (std::size_t line = begin; line < end;) {
                 const std::size_t outer = line / along.inner, inner = line % along.inner;
                 const float* from = x + outer * along.size * along.inner + inner;
                 std::int64_t* to = chosen + outer * k * along.inner + inner;
                 if (k == 1) {
                   const std::size_t beside = (std::min)(along.inner - inner, end - line);
                   first_of_lines(from, along, setting.smallest, beside, to);
                   line += beside;
                   continue;
                 }
                 for (std::size_t i = 0; i < along.size; ++i)
                   order[i] = static_cast<std::int64_t>(i);
                 std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k),
                                   order.end(), ComesBefore{from, along.inner, setting.smallest});
                 for (std::size_t i = 0; i < k; ++i) to[i * along.inner] = order[i];
                 ++line;
               }
             });
}

// Calls move(index of output element, index in x) for all chosen elements.
template <class Move>
void for_chosen(Context& context, const Along& along, std::size_t k, const std::int64_t* chosen,
                const Move& move) {
  for_ranges(context, along.outer * k, along.inner, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t n = 0; n < along.inner; ++n) {
        const std::size_t at = row * along.inner + n;
        const auto i = static_cast<std::size_t>(chosen[at]);
        move(at, (row / k * along.size + i) * along.inner + n);
      }
  });
}

inline void top_k_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<TopKSetting>();
  if (call.outputs[0].elements() == 0) return;
  const Tensor x = contiguous(call.context, call.inputs[0]);
  const Along along(x.shape(), setting.dimension);
  top_k_numbers(call, along, plain(call.context, x).data<float>());
  const std::int64_t* chosen = call.outputs[1].data<std::int64_t>();
  with_element_width(x.dtype(), [&](auto width) {
    using T = decltype(width);
    const T* from = codes<T>(x);
    T* y = mutable_codes<T>(call.outputs[0]);
    for_chosen(call.context, along, setting.k, chosen,
               [&](std::size_t to, std::size_t at) { y[to] = from[at]; });
  });
}

inline void top_k_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<TopKSetting>();
  if (!call.output_gradients[0].defined()) return;
  const Tensor dy = contiguous(call.context, call.output_gradients[0]);
  const Tensor dx = Tensor::zeros(call.context, call.inputs[0].shape(), dy.dtype());
  if (dy.elements() != 0)
    with_element_width(dy.dtype(), [&](auto width) {
      using T = decltype(width);
      const T* from = codes<T>(dy);
      T* to = mutable_codes<T>(dx);
      for_chosen(call.context, Along(dx.shape(), setting.dimension), setting.k,
                 call.outputs[1].data<std::int64_t>(),
                 [&](std::size_t at, std::size_t chosen) { to[chosen] = from[at]; });
    });
  call.input_gradients[0].values = dx;
}

inline void top_k_batch(const BatchCall& call) {
  if (call.batches[0].place().dimension == call.attributes.as<TopKSetting>().dimension) return;
  call.results[0] = call.results[1] = call.batches[0];
}

}  // namespace detail

namespace ops {

inline constexpr Operator top_k{.name = "top_k",
                                .outputs = 2,
                                .keeps_outputs = 2,
                                .batch = &detail::top_k_batch,
                                .shape = &detail::top_k_shape,
                                .host = &detail::top_k_host,
                                .gradient = &detail::top_k_gradient,
                                .wide_gradients = true,
                                .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
