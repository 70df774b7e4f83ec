#pragma once
// Custom operators: like a built-in operator, a function becomes callable on a tape,
// differentiable, known by name, listed, saved by name in checkpoints and checked by
// soma/testing.hpp. See docs/custom_operators.md.
//
//   auto leaky = soma::register_elementwise(
//       context.operators(), "my::leaky", [](float x) { return x > 0 ? x : 0.1f * x; },
//       [](float x, float dy) { return x > 0 ? dy : 0.1f * dy; });
//   soma::Var y = leaky(tape, x);
//
// Functions capture nothing: an operator lives as long as its context, and a captured object might
// end before. Settings of a call come in its attributes.

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/ops/elementwise.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/registry.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace SOMA_NAMESPACE {

// The attributes of an operator without any.
struct NoAttributes {};

namespace detail {

template <class A>
inline constexpr bool has_attributes = !std::is_same_v<A, NoAttributes>;

// R(Call...), or R(Call..., const A&) where there are attributes.
template <class A, class R, class... Call>
struct WithAttributes {
  using Function = R (*)(Call..., const A&);
};
template <class R, class... Call>
struct WithAttributes<NoAttributes, R, Call...> {
  using Function = R (*)(Call...);
};

// The attributes of a call; a call without attributes gets the defaults.
template <class A>
A attributes_of(const Attributes& given) {
  if constexpr (std::is_default_constructible_v<A>)
    if (given.empty()) return A{};
  return given.as<A>();
}
template <class A>
Attributes to_attributes(const A& attributes) {
  if constexpr (has_attributes<A>)
    return Attributes(attributes);
  else
    return {};
}
template <class A, class Function, class Call>
void call_with_attributes(Function function, const Call& call) {
  if constexpr (has_attributes<A>)
    function(call, attributes_of<A>(call.attributes));
  else
    function(call);
}

template <class Function>
inline constexpr bool captures_nothing =
    std::conjunction_v<std::is_empty<Function>, std::is_default_constructible<Function>>;

}  // namespace detail

// ---- calling

// An operator as a function of a tape and variables; attributes come last. It lives as long as the
// context in which the operator was registered. A call costs as much as Tape::apply: well below a
// microsecond beyond the kernel. Errors as of Tape::apply_all.
template <class A = NoAttributes>
class OperatorFunction {
 public:
  explicit OperatorFunction(const Operator& op) : op_(&op) {}

  Var operator()(Tape& tape, const Var& x, const A& attributes = {}) const {
    return apply(tape, {x}, attributes);
  }
  Var operator()(Tape& tape, const Var& x, const Var& y, const A& attributes = {}) const {
    return apply(tape, {x, y}, attributes);
  }
  Var operator()(Tape& tape, const Var& x, const Var& y, const Var& z,
                 const A& attributes = {}) const {
    return apply(tape, {x, y, z}, attributes);
  }
  // Takes any number of inputs; returns the first output.
  Var apply(Tape& tape, std::initializer_list<Var> inputs, const A& attributes = {}) const {
    return tape.apply(*op_, detail::to_attributes(attributes), inputs);
  }
  // Returns all outputs.
  VarOutputs all(Tape& tape, std::initializer_list<Var> inputs, const A& attributes = {}) const {
    return tape.apply_all(*op_, detail::to_attributes(attributes),
                          std::span<const Var>(inputs.begin(), inputs.size()));
  }
  const Operator& record() const { return *op_; }

 private:
  const Operator* op_;
};

// Calls an operator by name; returns the first output, or all outputs. Error operator.unknown.
Var apply(Tape& tape, std::string_view name, std::initializer_list<Var> inputs,
          const Attributes& attributes = {});
VarOutputs apply_all(Tape& tape, std::string_view name, std::initializer_list<Var> inputs,
                     const Attributes& attributes = {});

// ---- a scalar function

// y = f(x) and dx = df(x, dy), element by element; with attributes of type A both take a `const A&`
// last. x may be of any floating type and any shape. Without df the operator has no gradient:
// applying it to a variable with a gradient is error autograd.not_differentiable. Errors as of
// OperatorRegistry::add.
template <class A = NoAttributes, class Function, class Gradient = std::nullptr_t>
OperatorFunction<A> register_elementwise(OperatorRegistry& registry, std::string_view name,
                                         Function, Gradient = nullptr,
                                         Place place = Place::here()) {
  constexpr bool differentiable = !std::is_same_v<Gradient, std::nullptr_t>;
  static_assert(detail::captures_nothing<Function>,
                "register_elementwise: the function has to be a lambda without captures; what it "
                "needs comes in attributes");
  static_assert(!differentiable || detail::captures_nothing<Gradient>,
                "register_elementwise: the gradient has to be a lambda without captures; what it "
                "needs comes in attributes");
  const detail::ChunkFunction forward = [](const detail::Chunk& chunk) {
    const Function f{};
    const float* x = chunk.inputs[0];
    if constexpr (detail::has_attributes<A>) {
      const A a = detail::attributes_of<A>(chunk.attributes);
      for (std::size_t i = 0; i < chunk.count; ++i)
        chunk.output[i] = static_cast<float>(f(x[i], a));
    } else {
      for (std::size_t i = 0; i < chunk.count; ++i) chunk.output[i] = static_cast<float>(f(x[i]));
    }
  };
  detail::ChunkFunction backward = nullptr;
  if constexpr (differentiable)
    backward = [](const detail::Chunk& chunk) {
      const Gradient df{};
      const float *x = chunk.inputs[0], *dy = chunk.inputs[1];
      if constexpr (detail::has_attributes<A>) {
        const A a = detail::attributes_of<A>(chunk.attributes);
        for (std::size_t i = 0; i < chunk.count; ++i)
          chunk.output[i] = static_cast<float>(df(x[i], dy[i], a));
      } else {
        for (std::size_t i = 0; i < chunk.count; ++i)
          chunk.output[i] = static_cast<float>(df(x[i], dy[i]));
      }
    };
  OperatorSamples (*samples)() = nullptr;
  if constexpr (std::is_default_constructible_v<A>)
    samples = [] { return detail::elementwise_inputs(detail::to_attributes(A{})); };
  return OperatorFunction<A>(
      registry.add(detail::make_elementwise(name, forward, backward, samples), place.text()));
}

// ---- functions on tensors

// The parts of an operator; all except `host` or `compose` may be left out. Functions take a `const
// A&` last if there are attributes. They see the tensors of a call: the first `inputs` tensors are
// always defined(), the next `optional_inputs` may not be.
template <class A = NoAttributes>
struct CustomOperator {
  template <class Call>
  using On = typename detail::WithAttributes<A, void, const Call&>::Function;

  std::size_t inputs = 1, optional_inputs = 0;
  std::size_t outputs = 1;  // the first is the result; others may hold notes for the gradient

  // Says which outputs have the rows of a batch, and where. nullptr: the first output has them in
  // the dimension of the first input that has a batch, if the sizes agree; an operator that sums
  // over rows, or moves them, needs a rule.
  void (*batch)(const BatchCall&) = nullptr;
  // Sizes and types of the outputs. Required if `host` exists and does not allocate its outputs.
  On<ShapeCall> shape = nullptr;
  // Writes all elements of the outputs.
  On<OperatorCall> host = nullptr;
  // Instead of `host`: the operator as a formula of other differentiable operators, on a tape of
  // its own; the result has the type of input 0. The gradient is derived: the formula runs again,
  // recorded. dropout() on that tape does nothing: an operator that draws takes its Draw from the
  // attributes.
  typename detail::WithAttributes<A, Var, Tape&, std::span<const Var>>::Function compose = nullptr;
  On<GradientCall> gradient = nullptr;
  OperatorSamples (*samples)() = nullptr;  // the samples of soma::testing::check_operator
  const Program* program = nullptr;        // lives as long as the context

  // The tensors that `gradient` reads: bit i is input i, or output i. Fewer bits save memory on the
  // tape.
  std::uint32_t keeps_inputs = ~std::uint32_t{0}, keeps_outputs = ~std::uint32_t{0};
  std::uint32_t writes_inputs = 0;  // bit i: `host` writes input i. Such an operator has no
                                    // gradient
  bool allocates_outputs = false;   // true: `host` allocates, because sizes depend on the data
  // false: functions get floating tensors as fp32 and all tensors without gaps, whatever the caller
  // passes; true: functions get the caller's types and strides.
  bool as_given = false;
};

namespace detail {

template <class A>
struct NamedOperator : CustomOperator<A> {
  NamedOperator(const CustomOperator<A>& custom, std::string_view own_name)
      : CustomOperator<A>(custom), name(own_name) {}
  std::string name;
};

template <class A>
const NamedOperator<A>& custom_of(const void* state) {
  return *static_cast<const NamedOperator<A>*>(state);
}

template <class A>
Var run_composed(const CustomOperator<A>& custom, Tape& tape, std::span<const Var> inputs,
                 const Attributes& attributes) {
  Var result;
  if constexpr (has_attributes<A>)
    result = custom.compose(tape, inputs, attributes_of<A>(attributes));
  else
    result = custom.compose(tape, inputs);
  if (!result.defined()) return result;
  // An input returned unchanged would be no result of this tape.
  return result.is_leaf() ? tape.apply(tape.operators().of(Unary::copy), {}, {result}) : result;
}

// Inputs with a gradient: leaves for results, and parameters where gradients are sums.
HeapVector<Var> composed_inputs(Tape& tape, std::span<const Tensor> tensors,
                                std::span<const Sequences> batches, std::span<const bool> wanted,
                                std::span<const std::optional<DType>> sums = {});

template <class A>
void composed_host(const OperatorCall& call) {
  const CustomOperator<A>& custom = custom_of<A>(call.state);
  const auto host = [&](const OperatorCall& given) {
    Tape tape(given.context, {.record = false, .training = false});
    const HeapVector<Var> inputs = composed_inputs(tape, given.inputs, given.batches, {});
    const Var result = run_composed(custom, tape, inputs, given.attributes);
    if (result.defined()) given.outputs[0] = result.value();  // else run() names the missing output
  };
  if (custom.as_given) return host(call);
  with_plain_tensors(call, 0, host);
  Tensor& result = call.outputs[0];
  if (!call.inputs.empty() && call.inputs[0].defined() && widened(call.inputs[0]) &&
      result.defined() && result.dtype() == DType::fp32)
    result = in_type(call.context, result, call.inputs[0].dtype());
}
template <class A>
void composed_gradient(const GradientCall& call) {
  const CustomOperator<A>& custom = custom_of<A>(call.state);
  const auto gradient = [&](const GradientCall& given) {
    Tape tape(given.context, {.training = false});
    const HeapVector<Var> inputs =
        composed_inputs(tape, given.inputs, given.batches, given.wanted, given.sums);
    const Var result = run_composed(custom, tape, inputs, given.attributes);
    if (result.requires_gradient()) tape.backward(result, given.output_gradients[0]);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].requires_gradient()) given.input_gradients[i] = inputs[i].gradient();
  };
  if (custom.as_given) return gradient(call);
  with_plain_tensors(call, gradient);
}

}  // namespace detail

// Registers an operator. Errors as of OperatorRegistry::add; operator.incomplete: `compose` beside
// host, gradient or several outputs.
template <class A = NoAttributes>
OperatorFunction<A> register_operator(OperatorRegistry& registry, std::string_view name,
                                      const CustomOperator<A>& custom,
                                      Place place = Place::here()) {
  Owner state(detail::NamedOperator<A>(custom, name));
  Operator record{.name = name,
                  .min_inputs = custom.inputs,
                  .max_inputs = custom.inputs + custom.optional_inputs,
                  .outputs = custom.outputs,
                  .keeps_inputs = custom.keeps_inputs,
                  .keeps_outputs = custom.keeps_outputs,
                  .writes_inputs = custom.writes_inputs,
                  .allocates_outputs = custom.allocates_outputs,
                  .wants_batches = custom.compose != nullptr,
                  .batch = custom.batch,
                  .program = custom.program,
                  .samples = custom.samples,
                  .wide_gradients = !custom.as_given,
                  .state = state.get()};
  if (custom.shape != nullptr)
    record.shape = [](const ShapeCall& call) {
      detail::call_with_attributes<A>(detail::custom_of<A>(call.state).shape, call);
    };
  if (custom.compose != nullptr) {
    if (custom.host != nullptr || custom.gradient != nullptr || custom.outputs != 1)
      fail(error_id::operator_incomplete, "register_operator", "operator",
           quoted(name).append(" with compose and host, gradient or several outputs"),
           "compose alone: the others are derived");
    record.keeps_inputs = ~std::uint32_t{0};
    record.keeps_outputs = 0;
    record.allocates_outputs = true;
    record.host = &detail::composed_host<A>;
    record.gradient = &detail::composed_gradient<A>;
  } else if (custom.host != nullptr) {
    record.host = [](const OperatorCall& call) {
      const CustomOperator<A>& own = detail::custom_of<A>(call.state);
      const auto host = [&](const OperatorCall& given) {
        detail::call_with_attributes<A>(own.host, given);
      };
      if (own.as_given) return host(call);
      detail::with_plain_tensors(call, own.writes_inputs, host);
    };
  }
  if (custom.gradient != nullptr)
    record.gradient = [](const GradientCall& call) {
      const detail::NamedOperator<A>& own = detail::custom_of<A>(call.state);
      const auto gradient = [&](const GradientCall& given) {
        detail::call_with_attributes<A>(own.gradient, given);
        detail::check_gradients(own.name, given);  // before conversion to other types
      };
      if (own.as_given) return gradient(call);
      detail::with_plain_tensors(call, gradient);
    };
  return OperatorFunction<A>(registry.add(NewOperator{record, std::move(state)}, place.text()));
}

// A registered operator, to call with attributes of type A. Error operator.unknown.
template <class A = NoAttributes>
OperatorFunction<A> find_operator(const OperatorRegistry& registry, std::string_view name) {
  return OperatorFunction<A>(registry.at(name));
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/custom.ipp>
#endif
