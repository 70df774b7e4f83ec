#pragma once
// Opt-in: the checks that every operator has to pass, for soma's own tests and for yours.
//
//   const auto make = [](const soma::ContextOptions& o) { return soma::make_context(o); };
//   soma::testing::Report report = soma::testing::check_operator(make, my_operator);
//   // report.failures is empty, or says what is wrong; report.checks is how much was looked at
//
// For each of the operator's samples: the host kernel against the reference in double; the gradient
// against central differences of the reference; inputs with gaps give the bits of inputs without;
// every floating type of the inputs works or is refused with an error; and any number of threads
// and every target with fused multiply-add give the same bits. Misuse has to end in soma::Error.

#include <soma/api.hpp>
#include <soma/ops/samples.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace soma::testing {

struct Report {
  std::size_t checks = 0;
  std::vector<std::string> failures;
};

namespace detail {

inline double value_of(const Sample& sample, std::size_t input, std::size_t element) {
  const SampleInput& description = sample.inputs[input];
  if (!description.values.empty()) return description.values[element];
  const std::uint32_t word = random_word({.seed = 2024,
                                          .stream = stream_id(sample.name, "sample"),
                                          .step = static_cast<std::uint32_t>(input),
                                          .index = element});
  const double share = word * 0x1p-32, span = description.high - description.low;
  if (is_floating(description.dtype)) return static_cast<float>(description.low + span * share);
  return description.low + std::floor((span + 1) * share);
}

// How the inputs of a sample are laid out, and of what type floating ones are.
struct Variation {
  bool gaps = false;
  DType dtype = DType::fp32;
};

inline DType dtype_in(const SampleInput& input, const Variation& variation) {
  return is_floating(input.dtype) && variation.dtype != DType::fp32 ? variation.dtype : input.dtype;
}

inline void store(std::byte* to, DType dtype, double value) {
  const auto put = [to](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (dtype) {
    case DType::int8:
      return put(static_cast<std::int8_t>(value));
    case DType::uint8:
      return put(static_cast<std::uint8_t>(value));
    case DType::int32:
      return put(static_cast<std::int32_t>(value));
    case DType::int64:
      return put(static_cast<std::int64_t>(value));
    case DType::boolean:
      return put(value != 0);
    default:
      break;
  }
  const FloatFormat& format = format_of(dtype);
  const std::uint32_t code = encode(format, static_cast<float>(value)) << format.storage_shift();
  std::memcpy(to, &code, size_of(dtype));
}

// The value that is left of one when it is stored.
inline double stored(DType dtype, double value) {
  if (!is_floating(dtype)) return value;
  const FloatFormat& format = format_of(dtype);
  return static_cast<double>(decode(format, encode(format, static_cast<float>(value))));
}

inline Tensor make_input(Context& context, const Sample& sample, std::size_t input,
                         const Variation& variation) {
  const SampleInput& description = sample.inputs[input];
  if (description.left_out) return {};
  const DType dtype = dtype_in(description, variation);
  Tensor tensor;
  if (variation.gaps && description.shape.rank() > 0) {  // every other element of a longer last row
    const std::size_t last = description.shape.rank() - 1;
    tensor = Tensor::zeros(context, description.shape.with(last, 2 * description.shape[last] + 1),
                           dtype);
    tensor = tensor.slice(last, 1, 1 + 2 * description.shape[last], 2);
  } else {
    tensor = Tensor::empty(context, description.shape, dtype);
  }
  std::byte* data = tensor.mutable_raw();
  std::size_t element = 0;
  soma::detail::for_each_row(
      tensor.shape(), tensor.strides(), tensor.strides(), [&](std::size_t row, std::size_t) {
        const std::size_t step = tensor.rank() == 0 ? 1 : tensor.strides()[tensor.rank() - 1];
        for (std::size_t i = 0; i < tensor.shape().columns(); ++i)
          store(data + (row + i * step) * size_of(dtype), dtype,
                value_of(sample, input, element++));
      });
  return tensor;
}

inline double element_of(const Tensor& contiguous, std::size_t i) {
  const std::byte* data = contiguous.raw() + i * size_of(contiguous.dtype());
  const auto get = [data]<class T>(T number) {
    std::memcpy(&number, data, sizeof number);
    return static_cast<double>(number);
  };
  switch (contiguous.dtype()) {
    case DType::int8:
      return get(std::int8_t{});
    case DType::uint8:
    case DType::boolean:
      return get(std::uint8_t{});
    case DType::int32:
      return get(std::int32_t{});
    case DType::int64:
      return get(std::int64_t{});
    default:
      break;
  }
  const FloatFormat& format = format_of(contiguous.dtype());
  std::uint32_t code = 0;
  std::memcpy(&code, data, size_of(contiguous.dtype()));
  return static_cast<double>(decode(format, code >> format.storage_shift()));
}

struct Result {
  std::vector<ReferenceTensor> outputs, gradients;  // a gradient that is not wanted is not defined
  std::vector<DType> output_types;
  std::string refused;  // the id of the error that it ended in
};

// Weights of the sum of outputs that is differentiated.
inline double seed_of(std::size_t output, std::size_t element) {
  return static_cast<double>((element * 7 + output * 3) % 11) * 0.125 - 0.625;
}

inline ReferenceTensor to_reference(Context& context, const Tensor& tensor) {
  ReferenceTensor result{tensor.shape(), {}};
  const Tensor plain = contiguous(context, tensor);
  for (std::size_t i = 0; i < plain.elements(); ++i) result.values.push_back(element_of(plain, i));
  return result;
}

// Runs a sample forward, and backward where there is a gradient, on one output.
inline Result run_sample(Context& context, const Operator& op, const Sample& sample,
                         const Variation& variation) {
  Result result;
  Sequences sequences;
  if (!sample.lengths.empty() || op.name == "attention")
    sequences = Sequences::from_lengths(context, sample.lengths);
  Tape tape(context);
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const Tensor value = make_input(context, sample, i, variation);
    if (!value.defined())
      inputs.emplace_back();
    else if (op.gradient != nullptr && is_floating(value.dtype()) &&
             sample.inputs[i].differentiable)
      inputs.push_back(Var::parameter(context, value));
    else
      inputs.push_back(Var::constant(context, value));
    if (i == 0 && sequences.defined()) inputs[0] = tape.with_sequences(inputs[0], sequences);
  }
  try {
    const VarOutputs outputs = tape.apply_all(op, sample.attributes, inputs);
    for (std::size_t i = 0; i < op.outputs; ++i) {
      result.outputs.push_back(to_reference(context, outputs[i].value()));
      result.output_types.push_back(outputs[i].value().dtype());
    }
    if (op.gradient == nullptr || !outputs[0].requires_gradient()) return result;
    const Tensor& y = outputs[0].value();
    const Tensor seed = Tensor::empty(context, y.shape(), y.dtype());
    std::byte* data = seed.mutable_raw();
    for (std::size_t i = 0; i < seed.elements(); ++i)
      store(data + i * size_of(y.dtype()), y.dtype(), seed_of(0, i));
    tape.backward(outputs[0], seed);
    for (const Var& input : inputs) {
      if (!input.requires_gradient()) {
        result.gradients.push_back({.shape = {}, .values = {}, .defined = false});
        continue;
      }
      const Gradient& gradient = input.gradient();
      result.gradients.push_back(
          gradient.defined()
              ? to_reference(context, context.built_in().to_dense(context, gradient, input.shape()))
              : ReferenceTensor{input.shape(), std::vector<double>(input.shape().elements())});
    }
  } catch (const Error& error) {
    result.refused = std::string(error.id().name) + ": " + error.what();
  }
  return result;
}

// The reference's inputs: what the operator's inputs hold after they were stored.
inline std::vector<ReferenceTensor> reference_inputs(const Sample& sample,
                                                     const Variation& variation) {
  std::vector<ReferenceTensor> inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& description = sample.inputs[i];
    ReferenceTensor input{description.shape, {}, !description.left_out};
    for (std::size_t e = 0; !description.left_out && e < description.shape.elements(); ++e)
      input.values.push_back(stored(dtype_in(description, variation), value_of(sample, i, e)));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

inline double largest(const std::vector<double>& values) {
  double result = 1;
  for (const double value : values) result = (std::max)(result, std::fabs(value));
  return result;
}

// Half a unit in the last place of a type, relative; where numbers are small, its smallest step.
inline double rounding_of(DType dtype) {
  return is_floating(dtype) ? std::ldexp(1.0, -format_of(dtype).mantissa_bits - 1) : 0;
}

// A difference of corresponding elements beyond `bound` times the largest magnitude; empty: none.
// What the type makes of the wanted value (an overflow, say) is right in any case.
inline std::string compare(const std::vector<double>& given, const std::vector<double>& wanted,
                           double bound, DType dtype = DType::fp32) {
  if (given.size() != wanted.size())
    return std::to_string(given.size()) + " elements, wanted " + std::to_string(wanted.size());
  const double limit = bound * largest(wanted);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double best = stored(dtype, wanted[i]);
    const bool right = given[i] == best || (given[i] != given[i] && best != best);
    if (!right && !(std::fabs(given[i] - wanted[i]) <= limit))
      return "element " + std::to_string(i) + " is " + std::to_string(given[i]) + ", wanted " +
             std::to_string(wanted[i]) + " within " + std::to_string(limit) + " (off by " +
             std::to_string(std::fabs(given[i] - wanted[i]) / limit) + " times that)";
  }
  return {};
}

inline bool same(const Result& a, const Result& b) {
  const auto equal = [](const std::vector<ReferenceTensor>& x,
                        const std::vector<ReferenceTensor>& y) {
    if (x.size() != y.size()) return false;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i].shape != y[i].shape || x[i].values.size() != y[i].values.size() ||
          (!x[i].values.empty() && std::memcmp(x[i].values.data(), y[i].values.data(),
                                               x[i].values.size() * sizeof(double)) != 0))
        return false;
    return true;
  };
  return equal(a.outputs, b.outputs) && equal(a.gradients, b.gradients) && a.refused == b.refused;
}

// d(sum of weighted outputs)/d(input element) by central differences in double. The error of the
// formula is h^2 / 6 times the third derivative, about 1e-9 here.
inline std::vector<double> difference_quotients(const OperatorSamples& samples,
                                                const Sample& sample,
                                                std::vector<ReferenceTensor> inputs,
                                                std::size_t input) {
  constexpr double h = 1e-5;
  const auto weighted = [&] {
    const ReferenceTensor y = samples.reference(sample, inputs)[0];
    double total = 0;
    for (std::size_t i = 0; i < y.values.size(); ++i) total += seed_of(0, i) * y.values[i];
    return total;
  };
  std::vector<double> result;
  for (double& element : inputs[input].values) {
    const double middle = element;
    element = middle + h;
    const double above = weighted();
    element = middle - h;
    const double below = weighted();
    element = middle;
    result.push_back((above - below) / (2 * h));
  }
  return result;
}

inline constexpr double difference_error = 1e-8;

class Checker {
 public:
  Checker(const Operator& op, Report& report) : op_(op), report_(report) {}

  void expect(bool passed, const Sample& sample, const std::string& what) {
    ++report_.checks;
    if (!passed)
      report_.failures.push_back(std::string(op_.name) + " (" + sample.name + "): " + what);
  }

  // Outputs and gradients against the reference, for inputs of one type.
  void against_reference(const OperatorSamples& samples, const Sample& sample, const Result& result,
                         const Variation& variation) {
    const std::string type = std::string(to_string(variation.dtype)) + " ";
    const std::vector<ReferenceTensor> inputs = reference_inputs(sample, variation);
    const std::vector<ReferenceTensor> wanted = samples.reference(sample, inputs);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      expect(result.outputs[i].shape == wanted[i].shape, sample,
             type + "output " + std::to_string(i) + " has shape " +
                 to_string(result.outputs[i].shape) + ", wanted " + to_string(wanted[i].shape));
      const std::string difference =
          compare(result.outputs[i].values, wanted[i].values,
                  sample.error + rounding_of(result.output_types[i]), result.output_types[i]);
      expect(difference.empty(), sample, type + "output " + std::to_string(i) + ": " + difference);
    }
    if (variation.dtype != DType::fp32) return;
    for (std::size_t i = 0; i < result.gradients.size(); ++i) {
      if (!result.gradients[i].defined) continue;
      const std::string difference =
          compare(result.gradients[i].values, difference_quotients(samples, sample, inputs, i),
                  sample.gradient_error + difference_error);
      expect(difference.empty(), sample, "gradient " + std::to_string(i) + ": " + difference);
    }
  }

  // Too few inputs, too many, and one missing are refused.
  void misuse(Context& context, const Sample& sample) {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < sample.inputs.size(); ++i)
      inputs.push_back(make_input(context, sample, i, {}));
    const auto refused = [&](const std::vector<Tensor>& wrong) {
      try {
        run(context, op_, sample.attributes, wrong);
      } catch (const Error& error) {
        return error.id() == error_id::operator_inputs;
      }
      return false;
    };
    if (op_.min_inputs > 0) {
      expect(refused(std::vector<Tensor>(
                 inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(op_.min_inputs) - 1)),
             sample, "too few inputs are accepted");
      std::vector<Tensor> missing = inputs;
      missing[0] = {};
      expect(refused(missing), sample, "an undefined input is accepted");
    }
    std::vector<Tensor> many = inputs;
    many.resize(op_.max_inputs + 1, inputs.empty() ? Tensor() : inputs[0]);
    expect(refused(many), sample, "too many inputs are accepted");
  }

 private:
  const Operator& op_;
  Report& report_;
};

inline constexpr DType swept_types[] = {
    DType::tf32,     DType::fp16,       DType::bf16,         DType::fp8_e3m4,    DType::fp8_e4m3,
    DType::fp8_e5m2, DType::fp8_e4m3fn, DType::fp8_e4m3fnuz, DType::fp8_e5m2fnuz};

}  // namespace detail

// `make` makes a context from ContextOptions: a function that returns make_context(options). An
// operator without samples passes unchecked.
template <class MakeContext>
Report check_operator(const MakeContext& make, const Operator& op) {
  Report report;
  if (op.samples == nullptr) return report;
  detail::Checker checker(op, report);
  const OperatorSamples samples = op.samples();
  auto context = make(ContextOptions{.threads = 1});
  for (const Sample& sample : samples.samples) {
    const detail::Result plain = detail::run_sample(context, op, sample, {});
    checker.expect(plain.refused.empty(), sample, "refuses its sample: " + plain.refused);
    if (!plain.refused.empty()) continue;
    if (samples.reference != nullptr) checker.against_reference(samples, sample, plain, {});
    checker.expect(detail::same(plain, detail::run_sample(context, op, sample, {.gaps = true})),
                   sample, "inputs with gaps change the result");
    for (const DType dtype : detail::swept_types) {
      const detail::Variation variation{.dtype = dtype};
      const detail::Result result = detail::run_sample(context, op, sample, variation);
      if (result.refused.empty() && samples.reference != nullptr)
        checker.against_reference(samples, sample, result, variation);
      else
        checker.expect(result.refused.empty() || result.refused.starts_with("tensor.dtype"), sample,
                       std::string(to_string(dtype)) + " ends in " + result.refused);
    }
    checker.misuse(context, sample);
    for (const int threads : {2, 3, 7}) {
      auto other = make(ContextOptions{.threads = threads});
      checker.expect(detail::same(plain, detail::run_sample(other, op, sample, {})), sample,
                     std::to_string(threads) + " threads change the bits");
    }
    for (const Target& target : context.targets().targets) {
      auto other = make(ContextOptions{.threads = 1, .target = target.name});
      const detail::Result result = detail::run_sample(other, op, sample, {});
      if (target.fused_multiply_add && context.target().fused_multiply_add)
        checker.expect(detail::same(plain, result), sample,
                       "target " + std::string(target.name) + " changes the bits");
      else if (samples.reference != nullptr)
        checker.against_reference(samples, sample, result, {});
    }
  }
  return report;
}

}  // namespace soma::testing
