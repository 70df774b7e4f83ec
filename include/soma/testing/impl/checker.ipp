#pragma once
// The functions of checker.hpp.

#include <soma/testing/checker.hpp>

#include <soma/ops/registry.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/testing/report.hpp>
#include <soma/testing/run_sample.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE Executor OrderedExecutor::get() {
  return {.self = this, .width = 7, .run = [](void* self, int tasks, auto* task, void* arg) {
            const bool backwards = static_cast<OrderedExecutor*>(self)->backwards_;
            for (int i = 0; i < tasks; ++i) task(arg, backwards ? tasks - 1 - i : i);
          }};
}

SOMA_INLINE void Checker::check(const Sample& sample) {
  sample_ = &sample;
  if (!bounds()) return;
  const Result plain = run_sample(context_, op_, sample, {});
  if (!expect(Topic::samples, plain.refused.empty(), "refuses its sample: " + plain.refused))
    return;
  if (!expect(Topic::repetition, same(plain, run_sample(context_, op_, sample, {})),
              "the same call gives other bits the second time"))
    return;
  if (!reads(plain) || !against_reference(plain, {})) return;
  if (!gradients(plain)) return;
  if (!expect(Topic::strides, same(plain, run_sample(context_, op_, sample, {.gaps = true})),
              "ignores strides: inputs with gaps give other bits than inputs without"))
    return;
  if (!types() || !misuse() || !threads(plain)) return;
  targets();
}

SOMA_INLINE bool Checker::expect(Topic topic, bool passed, const std::string& what) {
  ++report_.checks;
  ++report_.by_topic[static_cast<std::size_t>(topic)];
  if (!passed)
    report_.failures.push_back(std::string(op_.name) + " (" + sample_->name + "): " + what);
  return passed;
}

SOMA_INLINE std::string Checker::output(std::size_t i) { return "output " + std::to_string(i); }

SOMA_INLINE std::string Checker::input(std::size_t i) { return "input " + std::to_string(i); }

SOMA_INLINE bool Checker::run_guarded(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs,
                                      double before) {
  Sequences sequences;
  if (!sample_->lengths.empty()) sequences = Sequences::from_lengths(context_, sample_->lengths);
  inputs.clear();
  for (std::size_t i = 0; i < sample_->inputs.size(); ++i)
    inputs.push_back(make_input(context_, *sample_, i, {}));
  const FloatEnvironment environment;
  const auto call = [&] {
    const std::array<TensorSpec, max_outputs> specs =
        soma::detail::output_specs(op_, sample_->attributes, inputs, sequences);
    outputs.clear();
    for (std::size_t i = 0; i < op_.outputs; ++i)
      outputs.push_back(guarded(context_, specs[i].shape, specs[i].dtype, before));
    op_.host({context_, sample_->attributes, inputs, outputs, sequences, op_.state});
    soma::detail::check_outputs(op_, outputs, specs);
  };
#if SOMA_HAS_EXCEPTIONS
  try {
    call();
  } catch (const Error&) {
    return false;  // said again, with its reason, where the sample is run as a whole
  }
#else
  call();
#endif
  return true;
}

SOMA_INLINE bool Checker::intact(const Tensor& tensor, double before) const {
  std::array<std::byte, 8> pattern{};
  const std::size_t width = size_of(tensor.dtype());
  store(pattern.data(), tensor.dtype(), before);
  const std::byte *first = tensor.storage().data(), *end = first + tensor.storage().bytes();
  const std::byte* own = tensor.elements() == 0 ? end : tensor.raw();
  for (const std::byte* at = first; at != end; at += width)
    if ((at < own || at >= own + tensor.bytes()) && std::memcmp(at, pattern.data(), width) != 0)
      return false;
  return true;
}

SOMA_INLINE bool Checker::bounds() {
  if (op_.makes_outputs()) return true;
  std::vector<Tensor> inputs, outputs, again_inputs, again;
  if (!run_guarded(inputs, outputs, 1) || !run_guarded(again_inputs, again, 2)) return true;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!expect(Topic::bounds, intact(outputs[i], 1) && intact(again[i], 2),
                "writes out of bounds: beside the elements of " + output(i) + ", which is " +
                    outputs[i].describe()))
      return false;
    const std::size_t width = size_of(outputs[i].dtype());
    std::size_t unwritten = outputs[i].elements();
    for (std::size_t e = outputs[i].elements(); e-- > 0;)
      if (element_of(outputs[i], e) == 1 && element_of(again[i], e) == 2 &&
          std::memcmp(outputs[i].raw() + e * width, again[i].raw() + e * width, width) != 0)
        unwritten = e;
    if (!expect(Topic::shapes, unwritten == outputs[i].elements(),
                "wrong shape rule: " + output(i) + " is " + outputs[i].describe() +
                    ", and the host kernel does not write its element " +
                    std::to_string(unwritten)))
      return false;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || op_.outputs == 0 || (op_.writes_inputs >> i & 1) != 0) continue;
    const Tensor before = make_input(context_, *sample_, i, {});
    if (!expect(Topic::bounds,
                intact(inputs[i], 0) &&
                    (inputs[i].bytes() == 0 ||
                     std::memcmp(inputs[i].raw(), before.raw(), before.bytes()) == 0),
                "writes to " + input(i) + ", and writes_inputs does not say so"))
      return false;
  }
  return true;
}

SOMA_INLINE bool Checker::reads(const Result& plain) {
  for (std::size_t i = 0; i < sample_->inputs.size(); ++i)
    if (!expect(Topic::bounds, same(plain, run_sample(context_, op_, *sample_, {.poisoned = i})),
                "reads out of bounds: memory beside the elements of " + input(i) +
                    " changes the result"))
      return false;
  return true;
}

SOMA_INLINE std::vector<ReferenceTensor> Checker::reference(
    const std::vector<ReferenceTensor>& inputs) const {
  return samples_.reference != nullptr ? samples_.reference(*sample_, inputs)
                                       : host_reference(context_, op_, *sample_, inputs);
}

SOMA_INLINE bool Checker::against_reference(const Result& result, const Variation& variation) {
  const bool plain = variation.dtype == DType::fp32;
  if (plain && samples_.reference == nullptr) return true;
  const std::string type(to_string(variation.dtype));
  const std::vector<ReferenceTensor> wanted = reference(reference_inputs(*sample_, variation));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!expect(Topic::shapes,
                i < result.outputs.size() && result.outputs[i].shape == wanted[i].shape,
                "wrong shape rule: " + output(i) + " is " +
                    (i < result.outputs.size() ? to_string(result.outputs[i].shape) : "not there") +
                    ", and " + to_string(wanted[i].shape) + " in the reference"))
      return false;
    const double between = variation.dtype == DType::bf16 ? sample_->bf16_error : 0;
    const std::string difference = compare(
        result.outputs[i].values, wanted[i].values,
        sample_->error + between + rounding_of(result.output_types[i]), result.output_types[i]);
    if (!expect(plain ? Topic::results : Topic::types, difference.empty(),
                plain ? "wrong result: " + output(i) + ", " + difference
                      : "wrong dtype: with inputs of " + type + " " + output(i) +
                            " is not that of "
                            "the same numbers in fp32, " +
                            difference))
      return false;
  }
  return true;
}

SOMA_INLINE bool Checker::gradients(const Result& result) {
  const std::vector<ReferenceTensor> inputs = reference_inputs(*sample_, {});
  for (std::size_t i = 0; i < result.gradients.size(); ++i) {
    if (!result.gradients[i].defined) continue;
    double error = difference_error;
    std::vector<double> wanted;
    if (samples_.reference != nullptr) {
      wanted = difference_quotients(samples_, *sample_, inputs, i);
    } else {
      error = host_difference_error;
      wanted = differences_of_host(inputs, i, result.gradients[i].values);
    }
    const std::string difference =
        compare(result.gradients[i].values, wanted, sample_->gradient_error + error);
    if (!expect(Topic::gradients, difference.empty(),
                "wrong gradient of " + input(i) + ": " + difference))
      return false;
  }
  return true;
}

SOMA_INLINE std::vector<double> Checker::differences_of_host(
    const std::vector<ReferenceTensor>& inputs, std::size_t input,
    const std::vector<double>& given) {
  const auto outputs = [&](const std::vector<ReferenceTensor>& at) {
    return host_reference(context_, op_, *sample_, at);
  };
  std::vector<double> result = central_differences(outputs, inputs, input, host_step);
  const std::vector<double> nearer = central_differences(outputs, inputs, input, host_step / 2);
  const double limit = host_difference_error / 2 * largest(result);
  for (std::size_t i = 0; i < result.size() && i < given.size(); ++i)
    if (!(std::fabs(result[i] - nearer[i]) <= limit)) result[i] = given[i];
  return result;
}

SOMA_INLINE bool Checker::types() {
  bool floating = false;
  for (const SampleInput& description : sample_->inputs)
    floating = floating || (is_floating(description.dtype) && !description.left_out);
  if (!floating) return true;
  for (const DType dtype : swept_types) {
    const Variation variation{.dtype = dtype};
    const Result result = run_sample(context_, op_, *sample_, variation);
    if (result.refused.empty()) {
      if (!against_reference(result, variation)) return false;
    } else if (!expect(Topic::types,
                       result.refused.starts_with("tensor.dtype") ||
                           result.refused.starts_with("neuroncore.rule_broken") ||
                           result.refused.starts_with("neuroncore.generation"),
                       "wrong dtype: " + std::string(to_string(dtype)) + " ends in " +
                           result.refused)) {
      return false;
    }
  }
  return true;
}

SOMA_INLINE bool Checker::misuse() {
#if SOMA_HAS_EXCEPTIONS
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < sample_->inputs.size(); ++i)
    inputs.push_back(make_input(context_, *sample_, i, {}));
  const auto refused = [&](const std::vector<Tensor>& wrong) {
    try {
      run(context_, op_, sample_->attributes, wrong);
    } catch (const Error& error) {
      return error.id() == error_id::operator_inputs;
    }
    return false;
  };
  bool good = true;
  if (op_.min_inputs > 0) {
    const auto last = inputs.begin() + static_cast<std::ptrdiff_t>(op_.min_inputs) - 1;
    good = expect(Topic::inputs, refused(std::vector<Tensor>(inputs.begin(), last)),
                  "too few inputs are accepted");
    std::vector<Tensor> missing = inputs;
    missing[0] = {};
    good = good && expect(Topic::inputs, refused(missing), "an undefined input is accepted");
  }
  inputs.resize(op_.max_inputs + 1, inputs.empty() ? Tensor() : inputs[0]);
  return good && expect(Topic::inputs, refused(inputs), "too many inputs are accepted");
#else
  return true;
#endif
}

SOMA_INLINE Result Checker::elsewhere(ContextOptions options) {
  if (options.math == Math::fast) options.math = home_.math();
  if (options.target.empty()) options.target = home_.target().name;
  Context other(options, home_.targets());
  other.operators().share(home_.operators());
  share_sparse(home_, other);
  return run_sample(other, op_, *sample_, {});
}

SOMA_INLINE bool Checker::threads(const Result& plain) {
  OrderedExecutor forwards(false), backwards(true);
  const Result ordered = elsewhere({.executor = forwards.get()});
  if (!expect(Topic::threads, same(ordered, elsewhere({.executor = backwards.get()})),
              "depends on thread order: tasks that run the other way round change the bits"))
    return false;
  if (!expect(Topic::threads, same(plain, ordered),
              "depends on the number of threads: 7 instead of 1 change the bits"))
    return false;
  for (const int threads : {2, 3, 7})
    if (!expect(Topic::threads, same(plain, elsewhere({.threads = threads})),
                "depends on threads that run at the same time: " + std::to_string(threads) +
                    " change the bits"))
      return false;
  return true;
}

SOMA_INLINE void Checker::targets() {
  const ContextOptions options{.threads = 1, .math = Math::portable};
  std::optional<Result> portable;
  if (context_.target().fused_multiply_add) portable = elsewhere(options);
  for (const Target& target : home_.targets().targets) {
    if (home_.math() == Math::fast &&
        !against_reference(elsewhere({.threads = 1, .target = target.name}), {}))
      return;
    if (!target.fused_multiply_add || !portable) continue;
    ContextOptions there = options;
    there.target = target.name;
    expect(Topic::targets, same(*portable, elsewhere(there)),
           "depends on the instruction set: " + std::string(target.name) + " changes the bits");
  }
}

}  // namespace SOMA_NAMESPACE::testing::detail
