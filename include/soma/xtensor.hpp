#pragma once
// The bridge to xtensor: its containers and adaptors as code spans and tensors, and spans and
// tensors as adaptors, without a copy; and custom operators from xtensor expressions.
//
// Lifetime. A code span of a container, or a tensor made from a named container, is valid while the
// container lives and is not resized. A tensor made from a moved container (tensor(context,
// std::move(array))) owns it. An adaptor over a span or a tensor owns nothing: keep the span's
// memory, or a tensor of that storage, as long as the adaptor is used.

#include <soma/autograd/custom.hpp>
#include <soma/kernels/convert/convert.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// xtensor 0.26 moved its headers into folders.
#if __has_include(<xtensor/containers/xadapt.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xnoalias.hpp>
#include <xtensor/views/xstrided_view.hpp>
#elif __has_include(<xtensor/xadapt.hpp>)
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xstrided_view.hpp>
#else
#error "soma/xtensor.hpp needs xtensor 0.24.3 or newer (Debian: libxtensor-dev)."
#endif

namespace SOMA_NAMESPACE::xtensor {

// A container, adaptor or strided view of float or minifloat, of rank 1 or 2 or more, whose last
// dimension is adjacent and whose leading dimensions lie at one regular distance, as a matrix: rows
// are all but the last dimension. Error xtensor.layout for anything else (column-major, transposed,
// every other column): evaluate it first.
template <class Container>
auto code_span(Container&& container) {
  using Element = std::remove_reference_t<decltype(*container.data())>;
  using Byte = std::conditional_t<std::is_const_v<Element>, const std::byte, std::byte>;
  const std::size_t rank = container.dimension();
  const auto extent = [&](std::size_t axis) {
    return static_cast<std::size_t>(container.shape()[axis]);
  };
  // xtensor gives stride 0 to extents of 1: such strides carry no information.
  const auto stride = [&](std::size_t axis) {
    return static_cast<std::ptrdiff_t>(container.strides()[axis]);
  };
  const auto refuse = [](const char* what) {
    fail(error_id::xtensor_layout, "xtensor::code_span", "container", what,
         "row-major with an adjacent last dimension");
  };

  const std::size_t columns = rank == 0 ? 1 : extent(rank - 1);
  if (columns > 1 && stride(rank - 1) != 1) refuse("not adjacent along its last dimension");
  std::size_t rows = 1, row_stride = columns;
  bool strided = false;  // true: row_stride came from the container
  for (std::size_t axis = rank <= 1 ? 0 : rank - 1; axis-- > 0;) {
    const std::size_t count = extent(axis);
    if (count != 1 && rows != 0) {
      if (stride(axis) < 0) refuse("reversed along a dimension");
      const auto distance = static_cast<std::size_t>(stride(axis));
      if (!strided) {
        row_stride = distance;
        strided = true;
      } else if (distance != rows * row_stride) {
        refuse("irregular across its leading dimensions");
      }
    }
    rows *= count;
  }
  auto* first = container.data() + container.data_offset();
  return BasicCodeSpan<Byte>{detail::FormatOf<std::remove_const_t<Element>>::value,
                             reinterpret_cast<Byte*>(first), rows, columns,
                             row_stride * sizeof(Element)};
}

// An xtensor adaptor over memory that the caller owns. Error convert.size_mismatch: the shape has
// another number of elements than the span.
template <class T>
auto adapt(std::span<T> values, const std::vector<std::size_t>& shape) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) size = checked_multiply(size, extent, "xtensor::adapt");
  if (size != values.size())
    fail(error_id::size_mismatch, "xtensor::adapt", "shape", std::to_string(size) + " elements",
         std::to_string(values.size()) + ", the size of the span");
  return xt::adapt(values.data(), values.size(), xt::no_ownership(), shape);
}

namespace detail {

// A strided view of the elements, because an assignment to an xt::adapt() of any strides would put
// them next to each other.
template <class T>
auto adapt_strided(T* data, const Tensor& tensor) {
  const std::size_t rank = tensor.rank(), elements = tensor.elements();
  std::vector<std::size_t> shape(tensor.shape().begin(), tensor.shape().end());
  std::vector<std::ptrdiff_t> strides(rank);
  std::size_t extent = elements == 0 ? 0 : 1;  // from the first to the last element
  for (std::size_t i = 0; i < rank; ++i) {
    if (shape[i] > 1) strides[i] = static_cast<std::ptrdiff_t>(tensor.strides()[i]);
    if (elements != 0) extent += (shape[i] - 1) * tensor.strides()[i];
  }
  return xt::strided_view(
      xt::adapt(data, extent, xt::no_ownership(), std::vector<std::size_t>{extent}),
      std::move(shape), std::move(strides), 0, xt::layout_type::dynamic);
}

}  // namespace detail

// The elements of a tensor as an xtensor view, whatever the strides. Error tensor.dtype.
template <class T>
auto adapt(const Tensor& tensor) {
  return detail::adapt_strided<const T>(tensor.data<T>(), tensor);
}

// The same to write to, which advances the tensor's version once. Errors tensor.dtype,
// tensor.read_only.
template <class T>
auto mutable_adapt(const Tensor& tensor) {
  return detail::adapt_strided<T>(tensor.mutable_data<T>(), tensor);
}

// A tensor that shares the elements of a container, adaptor or strided view, in any layout.
// Constant elements make a read-only tensor. A moved container moves into the tensor's storage and
// ends with it; memory behind a view or an adaptor stays the caller's. Errors xtensor.layout
// (reversed), tensor.rank.
template <class Container>
Tensor tensor(Context& context, Container&& container) {
  const auto adopt = [&](auto& held, Owner owner) {
    using Element = std::remove_pointer_t<decltype(held.data())>;
    const Shape shape(std::vector<std::size_t>(held.shape().begin(), held.shape().end()));
    Strides strides{};
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (shape[i] > 1 && held.strides()[i] < 0)
        fail(error_id::xtensor_layout, "xtensor::tensor", "container", "reversed along a dimension",
             "a container without negative strides");
      // xtensor gives stride 0 to extents of 1: such strides carry no information.
      if (shape[i] > 1) strides[i] = static_cast<std::size_t>(held.strides()[i]);
    }
    auto* first = const_cast<std::remove_const_t<Element>*>(held.data()) + held.data_offset();
    return Tensor::adopt_bytes(context, reinterpret_cast<std::byte*>(first), shape, strides,
                               dtype_of<std::remove_const_t<Element>>, std::move(owner),
                               !std::is_const_v<Element>);
  };
  if constexpr (std::is_lvalue_reference_v<Container>) {
    return adopt(container, Owner());
  } else {
    const auto held = std::make_shared<Container>(std::move(container));
    return adopt(*held, held);
  }
}

// ---- custom operators

namespace detail {

template <class T>
auto adapt_chunk(T* data, std::size_t count) {
  return xt::adapt(data, count, xt::no_ownership(), std::array<std::size_t, 1>{count});
}

}  // namespace detail

// soma::register_elementwise with expressions: y = f(x), dx = df(x, dy), where x and dy are
// one-dimensional adaptors of float: a part of the elements at a time, in parallel. With attributes
// of type A both functions take a `const A&` last. An expression that is returned must not refer to
// local variables of the function (xtensor evaluates it later): return an xt::xarray<float> then.
// Errors as OperatorRegistry::add.
template <class A = NoAttributes, class Function, class Gradient = std::nullptr_t>
OperatorFunction<A> register_elementwise(OperatorRegistry& registry, std::string_view name,
                                         Function, Gradient = nullptr,
                                         Place place = Place::here()) {
  constexpr bool differentiable = !std::is_same_v<Gradient, std::nullptr_t>;
  static_assert(soma::detail::captures_nothing<Function> &&
                    (!differentiable || soma::detail::captures_nothing<Gradient>),
                "register_elementwise: the functions have to be lambdas without captures; what "
                "they need comes in attributes");
  const auto evaluate = [](const soma::detail::Chunk& chunk, const auto& f, const auto&... inputs) {
    auto output = detail::adapt_chunk(chunk.output, chunk.count);
    if constexpr (soma::detail::has_attributes<A>) {
      const A attributes = soma::detail::attributes_of<A>(chunk.attributes);
      xt::noalias(output) = f(inputs..., attributes);
    } else {
      xt::noalias(output) = f(inputs...);
    }
  };
  using Evaluate = decltype(evaluate);
  const soma::detail::ChunkFunction forward = [](const soma::detail::Chunk& chunk) {
    Evaluate{}(chunk, Function{}, detail::adapt_chunk(chunk.inputs[0], chunk.count));
  };
  soma::detail::ChunkFunction backward = nullptr;
  if constexpr (differentiable)
    backward = [](const soma::detail::Chunk& chunk) {
      Evaluate{}(chunk, Gradient{}, detail::adapt_chunk(chunk.inputs[0], chunk.count),
                 detail::adapt_chunk(chunk.inputs[1], chunk.count));
    };
  OperatorSamples (*samples)() = nullptr;
  if constexpr (std::is_default_constructible_v<A>)
    samples = [] { return soma::detail::elementwise_inputs(soma::detail::to_attributes(A{})); };
  return OperatorFunction<A>(
      registry.add(soma::detail::make_elementwise(name, forward, backward, samples), place.text()));
}

namespace detail {

// An adaptor for a tensor without gaps: unlike a strided view it may be moved.
template <class T>
auto adapt_plain(T* data, const Tensor& tensor) {
  return xt::adapt(data, tensor.elements(), xt::no_ownership(),
                   std::vector<std::size_t>(tensor.shape().begin(), tensor.shape().end()));
}

}  // namespace detail

// The tensors of a call as xtensor adaptors of float; an omitted tensor is empty.
using Inputs = std::vector<decltype(detail::adapt_plain(std::declval<const float*>(), Tensor()))>;
using Targets = std::vector<decltype(detail::adapt_plain(std::declval<float*>(), Tensor()))>;

namespace detail {

inline Inputs adapt_all(Context& context, std::span<const Tensor> tensors) {
  const Tensor none = Tensor::empty(context, Shape{0});
  Inputs all;
  for (const Tensor& tensor : tensors) {
    const Tensor& there = tensor.defined() ? tensor : none;
    all.push_back(adapt_plain(there.data<float>(), there));
  }
  return all;
}
inline Targets adapt_targets(std::span<const Tensor> tensors) {
  Targets all;
  for (const Tensor& tensor : tensors)
    all.push_back(adapt_plain(tensor.mutable_data<float>(), tensor));
  return all;
}
// An assignment gives an adaptor the shape of the expression.
inline void check_shapes(std::span<const Tensor> tensors, const Targets& written) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    const Shape shape(
        std::vector<std::size_t>(written[i].shape().begin(), written[i].shape().end()));
    if (shape != tensors[i].shape())
      fail(error_id::tensor_shape, "xtensor::register_operator", "expression", to_string(shape),
           tensors[i].describe());
  }
}

}  // namespace detail

// soma::register_operator with functions of xtensor adaptors:
//   host(inputs, outputs)                                           assigns to outputs[i]
//   gradient(inputs, outputs, output_gradients, input_gradients)    assigns to input_gradients[i]
// where the first are Inputs and the last is Targets. `custom` has everything else: sizes, kept
// tensors, attributes of type A, which both functions then take last. All tensors are seen as fp32
// (other floating types are widened, and results are rounded once); for whole numbers write a
// function on tensors, with adapt<T>(). A missing output gradient is zeros. Errors as
// OperatorRegistry::add; when called tensor.dtype (whole numbers), tensor.shape (an expression
// whose shape differs from the shape rule's).
template <class A = NoAttributes, class Host, class Gradient = std::nullptr_t>
OperatorFunction<A> register_operator(OperatorRegistry& registry, std::string_view name,
                                      CustomOperator<A> custom, Host, Gradient = nullptr,
                                      Place place = Place::here()) {
  constexpr bool differentiable = !std::is_same_v<Gradient, std::nullptr_t>;
  static_assert(soma::detail::captures_nothing<Host> &&
                    (!differentiable || soma::detail::captures_nothing<Gradient>),
                "register_operator: the functions have to be lambdas without captures; what they "
                "need comes in attributes");
  custom.as_given = false;
  custom.host = [](const OperatorCall& call, const auto&... attributes) {
    const Inputs inputs = detail::adapt_all(call.context, call.inputs);
    Targets outputs = detail::adapt_targets(call.outputs);
    Host{}(inputs, outputs, attributes...);
    detail::check_shapes(call.outputs, outputs);
  };
  if constexpr (differentiable)
    custom.gradient = [](const GradientCall& call, const auto&... attributes) {
      HeapVector<Tensor> dy(call.context.heap()), dx(call.context.heap());
      for (std::size_t i = 0; i < call.outputs.size(); ++i)
        dy.push_back(call.output_gradients[i].defined()
                         ? call.output_gradients[i]
                         : Tensor::zeros(call.context, call.outputs[i].shape()));
      for (const Tensor& input : call.inputs)
        dx.push_back(Tensor::zeros(call.context, input.shape()));
      Targets gradients = detail::adapt_targets(dx);
      Gradient{}(detail::adapt_all(call.context, call.inputs),
                 detail::adapt_all(call.context, call.outputs), detail::adapt_all(call.context, dy),
                 gradients, attributes...);
      detail::check_shapes(dx, gradients);
      for (std::size_t i = 0; i < call.inputs.size(); ++i)
        if (call.wanted[i]) call.input_gradients[i].values = dx[i];
    };
  return soma::register_operator(registry, name, custom, place);
}

}  // namespace SOMA_NAMESPACE::xtensor
