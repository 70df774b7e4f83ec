#pragma once
// Operator: the complete record of one operation: the shapes of its inputs and outputs, its host
// kernel, its accelerator program, its gradient, and samples to test it with.
//
// A record consists of plain data and function pointers, so that built-in operators, the host's
// operators and operators that were registered at run time are the same thing. Records are used by
// address: they must outlive their users (inline constexpr variables, or a registry).
//
// autograd/custom.hpp makes such records for custom operators.

#include <soma/tensor/ragged.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace SOMA_NAMESPACE {

struct Program;          // an accelerator's program, opaque here
struct OperatorSamples;  // ops/samples.hpp

class FieldVisitor;  // ops/fields.hpp

// The settings of one call: a small trivially copyable struct that the operator defines. If the
// struct lists its fields (ops/fields.hpp), calls can be compared and stored.
class Attributes {
 public:
  static constexpr std::size_t max_bytes = 96;

  Attributes() = default;
  template <class T>
  requires(!std::is_same_v<T, Attributes>) Attributes(const T& value)
      : size_(sizeof(T)), type_(&type<T>) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= max_bytes &&
                  alignof(T) <= alignof(std::max_align_t));
    std::memcpy(bytes_, &value, sizeof(T));
  }
  // Error operator.attributes: the attributes were made from another type.
  template <class T>
  const T& as() const {
    if (type_ != &type<T> && !same_name(type<T>.name, sizeof(T)))
      fail(error_id::operator_attributes, "Attributes::as", "attributes", "of another type",
           "the attributes of this operator");
    return *reinterpret_cast<const T*>(bytes_);
  }
  bool empty() const { return type_ == nullptr; }
  std::span<const std::byte> bytes() const;

  // True if the type lists its fields, or if there are no attributes.
  bool lists_fields() const { return type_ == nullptr || type_->fields != nullptr; }
  // Shows the fields to a visitor, which may change them. Does nothing if lists_fields() is false.
  void visit(FieldVisitor& visitor);
  // Error operator.value, or the id of a field's range: a field is outside of its range.
  void check(std::string_view operation) const;

 private:
  struct Type {
    std::string_view name;
    void (*fields)(FieldVisitor&, void*);
  };
  // A type in a named namespace is also identified by its name: a shared library that has its own
  // copy of soma may run an operator of another library, and then has types of its own. Other names
  // do not identify a type: several types of unnamed namespaces, functions and lambdas may have the
  // same name.
  template <class T>
  static constexpr std::string_view name_of() {
    // "... [with T = Name; ...]" or "... [T = Name]"
    constexpr std::string_view all = __PRETTY_FUNCTION__;
    constexpr std::string_view rest = all.substr(all.find("T = ") + 4);
    constexpr std::string_view name = rest.substr(0, rest.find_first_of(";]"));
    constexpr bool named = name.find("::") != name.npos && name.find_first_of("({") == name.npos &&
                           name.find("<unnamed") == name.npos;
    return named ? name : std::string_view();
  }
  template <class T>
  static constexpr auto lister_of() -> void (*)(FieldVisitor&, void*) {
    if constexpr (requires(FieldVisitor & visitor, T & value) { fields(visitor, value); })
      return [](FieldVisitor& visitor, void* value) { fields(visitor, *static_cast<T*>(value)); };
    else
      return nullptr;
  }
  template <class T>
  static constexpr Type type{name_of<T>(), lister_of<T>()};
  bool same_name(std::string_view name, std::size_t size) const;
  alignas(std::max_align_t) std::byte bytes_[max_bytes] = {};
  std::size_t size_ = 0;
  const Type* type_ = nullptr;
};

inline constexpr std::size_t most_inputs = 32;  // one bit each in Operator::keeps_inputs
inline constexpr std::size_t max_outputs = 4;

struct TensorSpec {
  Shape shape;
  DType dtype = DType::fp32;
};

// The arguments of a shape rule: the inputs (whose elements must not be read) and room for the
// outputs. The rule sets each output as a whole.
struct ShapeCall {
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  const Sequences& sequences;
  std::span<TensorSpec> outputs;
  const void* state = nullptr;  // Operator::state
};

// The arguments of a kernel or a program. An optional input that was left out is not defined().
struct OperatorCall {
  Context& context;
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  std::span<Tensor> outputs;
  // The batch of the first input that has one, with its place in that input; not defined() if
  // unknown. Operators with batch_inputs get a row for each of their rows.
  const Sequences& sequences;
  const void* state = nullptr;  // Operator::state
  // The batch of each input, if Operator::wants_batches and one has some; else empty.
  std::span<const Sequences> batches{};
};

// The arguments of a batch rule: each input and its batch, and the outputs. The rule sets the batch
// of outputs that have one: the rows that it stands for, and their place in the output.
struct BatchCall {
  Context& context;
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  std::span<const Sequences> batches;  // not defined(): the input has none
  std::span<const Tensor> outputs;
  std::span<Sequences> results;

  // The first input that has a batch; there is one.
  std::size_t first() const;
};

// The rows of an operator: sums over a batch and random draws follow them.
enum class RowDimensions : std::uint8_t {
  first,         // each element of the first dimension is a row
  all_but_last,  // each element of all dimensions but the last
  all,           // each element
};

// The gradient of a tensor: of the same shape, or only for the rows that were touched.
struct Gradient {
  Tensor values;
  Tensor rows;  // int64, ascending, each once; not defined(): all rows
  // For a part of a batch (LinearFormats::part): what the sum of all parts is multiplied by.
  float factor = 1;
  // A sum over some rows of a batch that was rounded below fp32 before the other rows were added.
  bool rounded = false;
  // If a rank keeps the gradient of some rows only: values, and the numbers in `rows`, count from
  // this row.
  std::size_t first_row = 0;

  bool defined() const;
  bool sparse() const;
};

// The arguments of a gradient function. Inputs and outputs that the record does not keep have a
// shape and no elements. The function fills the wanted gradients; a gradient that is left undefined
// is zero.
struct GradientCall {
  Context& context;
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> output_gradients;  // undefined: zero
  const Sequences& sequences;
  std::span<const bool> wanted;  // for each input
  std::span<Gradient> input_gradients;
  const void* state = nullptr;  // Operator::state
  // The batch of the first output, with its place in it; not defined() if it has none.
  Sequences output_sequences{};
  std::span<const Sequences> batches{};  // as OperatorCall::batches
  // The types of gradients that are sums over a batch, see sum_type(). May be empty.
  std::span<const std::optional<DType>> sums{};

  // Set where the gradient of an input is a sum over the batch: that of a parameter, or of a result
  // of parameters alone. Such a sum is made in fp32 and rounded once: to fp32, or to a narrower
  // type where it is the whole sum of a step. Not set: the gradient of hidden states, which may
  // have any floating type.
  std::optional<DType> sum_type(std::size_t input) const;
};

// Inputs and outputs of an operator: bit i is number i.
struct KeptTensors {
  std::uint32_t inputs = 0, outputs = 0;
};

// The work of a call of the accelerator's processors.
struct ProcessorWork {
  std::uint64_t bytes_read = 0, bytes_written = 0;  // bytes of device memory
  double nanoseconds = 0;                           // on the modelled hardware
};

// A registry's notes on an operator that it owns.
struct Registration {
  std::string place;                      // who registered it: "file:line", or a library's path
  mutable std::atomic<bool> used{false};  // true: it ran, and a checkpoint names it
};

struct Operator {
  std::string_view name;
  std::size_t min_inputs = 1, max_inputs = 1;
  std::size_t outputs = 1;  // 0: it writes its inputs (an optimizer step)
  // The inputs and outputs that the gradient reads: bit i is number i.
  std::uint32_t keeps_inputs = 0, keeps_outputs = 0;
  // Those among them that it reads if only the gradients of the inputs in `wanted` (bit i) are
  // wanted: a product with a frozen weight does not read its other operand. nullptr: all.
  KeptTensors (*keeps_for)(std::uint32_t wanted) = nullptr;
  // Bit i: `host` writes input i. Such an operator has no gradient, because the gradients of
  // earlier readers of the input would be wrong.
  std::uint32_t writes_inputs = 0;
  // Bit i: input i, if given, lists rows, whose number depends on the data. Sizes of such a call
  // differ from step to step: a device that keeps graphs of calls leaves the call out of them.
  std::uint32_t row_inputs = 0;
  // The outputs are views that `host` makes of its inputs.
  bool makes_views = false;
  // `host` makes the outputs, because their sizes depend on the data. Then a shape rule only checks
  // the inputs, and is optional.
  bool allocates_outputs = false;
  // `host` is composed of other operators, which a device runs one by one.
  bool composite = false;

  // Bit i: input i is read as rows, as `row_dimensions` says. The tape brings a batch of such
  // inputs to the front, and its first result back (others stay in the order of the batch's rows);
  // `sequences` of a call then has a row for each row of the operator. A batch outside of the rows
  // is none to the operator. 0: the operator takes a batch wherever it is.
  std::uint32_t batch_inputs = 0;
  RowDimensions row_dimensions = RowDimensions::all_but_last;
  // True: calls have OperatorCall::batches.
  bool wants_batches = false;

  // Sets the batch of the outputs; called if an input has one. nullptr: the first output has it in
  // the same dimension, if that dimension has the same size there.
  void (*batch)(const BatchCall&) = nullptr;
  void (*shape)(const ShapeCall&) = nullptr;
  void (*host)(const OperatorCall&) = nullptr;
  // The same as one instruction of the accelerator's general-purpose processors; nullptr: not such
  // a kernel (ops/processor_operator.hpp).
  ProcessorWork (*on_processors)(const OperatorCall&) = nullptr;
  const Program* program = nullptr;
  void (*gradient)(const GradientCall&) = nullptr;  // nullptr: has none
  OperatorSamples (*samples)() = nullptr;
  // True: `gradient` also takes inputs, outputs and output gradients that were widened to fp32, and
  // then makes fp32. Gradients that are sums over a batch (GradientCall::sum_type) pass only such
  // operators without another rounding. False: tensors have the types that forward had.
  bool wide_gradients = false;
  // True: soma::testing has samples for this name (testing/samples.hpp).
  bool built_in_samples = false;
  // The multiplications and additions of a call's matrix products, for profiles; nullptr: none.
  double (*operations)(const OperatorCall&) = nullptr;
  const void* state = nullptr;  // passed to its functions, if they need more than a call
  const Registration* registration = nullptr;  // for operators that a registry owns

  // The tensors that the gradient reads for these inputs.
  KeptTensors kept_for(std::uint32_t wanted) const;
  // True if `host` makes the outputs, instead of writing the outputs of the shape rule.
  bool makes_outputs() const { return makes_views || allocates_outputs; }
  bool has_samples() const { return samples != nullptr || built_in_samples; }
};

namespace detail {

// Error operator.incomplete names the missing member.
void check_complete(std::string_view operation, const Operator& op);

}  // namespace detail

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/operator.ipp>
#endif
