#pragma once
// Operator: the record that says everything about one operation: which shapes it takes and gives,
// how the host computes it, how the accelerator does, its gradient, and samples to test it with.
//
// A record is plain data and function pointers, so that a built-in operator, one of the host's own
// and one that was registered at run time are the same thing. Records are used by address: they
// live as long as whoever uses them (inline constexpr variables, or a registry).

#include <soma/tensor/ragged.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace soma {

struct Program;          // what an accelerator runs; an opaque slot for whoever brings engines
struct OperatorSamples;  // ops/samples.hpp

// The settings of one call: a small trivially copyable struct of the operator's own.
class Attributes {
 public:
  static constexpr std::size_t max_bytes = 96;

  Attributes() = default;
  template <class T>
  requires(!std::is_same_v<T, Attributes>) Attributes(const T& value)
      : size_(sizeof(T)), tag_(&tag<T>) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= max_bytes &&
                  alignof(T) <= alignof(std::max_align_t));
    std::memcpy(bytes_, &value, sizeof(T));
  }
  // Error operator.attributes where they were made of another type.
  template <class T>
  const T& as() const {
    if (tag_ != &tag<T>)
      fail(error_id::operator_attributes, "Attributes::as", "attributes", "of another type",
           "those of this operator");
    return *reinterpret_cast<const T*>(bytes_);
  }
  std::span<const std::byte> bytes() const { return {bytes_, size_}; }

 private:
  template <class T>
  static constexpr char tag = 0;
  alignas(std::max_align_t) std::byte bytes_[max_bytes] = {};
  std::size_t size_ = 0;
  const char* tag_ = nullptr;
};

inline constexpr std::size_t most_inputs = 32;  // one bit each in Operator::keeps_inputs
inline constexpr std::size_t max_outputs = 4;

struct TensorSpec {
  Shape shape;
  DType dtype = DType::fp32;
};

// What a shape rule sees: the inputs (elements must not be read) and room for the outputs.
struct ShapeCall {
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  const Sequences& sequences;
  std::span<TensorSpec> outputs;
};

// What a kernel or a program sees. An optional input that was left out is not defined().
struct OperatorCall {
  Context& context;
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  std::span<Tensor> outputs;
  // How the rows of the inputs form sequences and shards; not defined() where nobody said.
  const Sequences& sequences;
};

// The gradient of a tensor: of the same shape, or only of the rows that were touched.
struct Gradient {
  Tensor values;
  Tensor rows;  // int64, ascending, each once; not defined(): all rows

  bool defined() const { return values.defined(); }
  bool sparse() const { return rows.defined(); }
};

// What a gradient function sees. Inputs and outputs that the record does not keep have a shape and
// no elements. It fills the gradients that are wanted; one left undefined is zero.
struct GradientCall {
  Context& context;
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> output_gradients;  // undefined: zero
  const Sequences& sequences;
  std::span<const bool> wanted;  // for each input
  std::span<Gradient> input_gradients;
};

struct Operator {
  std::string_view name;
  std::size_t min_inputs = 1, max_inputs = 1;
  std::size_t outputs = 1;  // 0: it writes its inputs (an optimizer step)
  // Which inputs and outputs the gradient reads: bit i is number i.
  std::uint32_t keeps_inputs = 0, keeps_outputs = 0;
  // The outputs are views that `host` makes of its inputs.
  bool makes_views = false;

  void (*shape)(const ShapeCall&) = nullptr;
  void (*host)(const OperatorCall&) = nullptr;
  const Program* program = nullptr;
  void (*gradient)(const GradientCall&) = nullptr;  // nullptr: has none
  OperatorSamples (*samples)() = nullptr;
};

namespace detail {

// Error operator.incomplete.
inline void check_complete(std::string_view operation, const Operator& op) {
  if (!op.name.empty() && op.shape != nullptr && op.host != nullptr &&
      op.min_inputs <= op.max_inputs && op.max_inputs <= most_inputs && op.outputs <= max_outputs)
    return;
  fail(error_id::operator_incomplete, operation, "operator", quoted(op.name),
       "a name, a shape rule, a host kernel, at most " + std::to_string(most_inputs) +
           " inputs and " + std::to_string(max_outputs) + " outputs");
}

}  // namespace detail

}  // namespace soma
