#pragma once
// Checker: one sample of an operator through all checks. Later checks rely on earlier ones, and the
// first failure ends a sample, so that each mistake gets its own message.

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

inline constexpr DType swept_types[] = {
    DType::tf32,     DType::fp16,       DType::bf16,         DType::fp8_e3m4,    DType::fp8_e4m3,
    DType::fp8_e5m2, DType::fp8_e4m3fn, DType::fp8_e4m3fnuz, DType::fp8_e5m2fnuz};

// Runs tasks one after the other, from the first or from the last: both are orders that a pool may
// use.
class OrderedExecutor {
 public:
  explicit OrderedExecutor(bool backwards) : backwards_(backwards) {}
  Executor get();

 private:
  bool backwards_;
};

class Checker {
 public:
  // `context` has one thread and the operators of `home`.
  Checker(Context& context, Context& home, const Operator& op, const OperatorSamples& samples,
          Report& report)
      : context_(context), home_(home), op_(op), samples_(samples), report_(report) {}

  void check(const Sample& sample);

 private:
  bool expect(Topic topic, bool passed, const std::string& what);
  static std::string output(std::size_t i);
  static std::string input(std::size_t i);

  // ---- memory

  // Calls the host kernel with outputs that are filled with `before` and surrounded by it. Returns
  // false if the kernel refused the call.
  bool run_guarded(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, double before);
  // True if all elements around a guarded tensor are still `before`.
  bool intact(const Tensor& tensor, double before) const;

  bool bounds();

  // Elements around an input must not matter.
  bool reads(const Result& plain);

  // ---- numbers

  std::vector<ReferenceTensor> reference(const std::vector<ReferenceTensor>& inputs) const;

  // Outputs, for inputs of one type.
  bool against_reference(const Result& result, const Variation& variation);

  bool gradients(const Result& result);
  // If two step sizes disagree, there is a kink between them: such an element counts as correct.
  std::vector<double> differences_of_host(const std::vector<ReferenceTensor>& inputs,
                                          std::size_t input, const std::vector<double>& given);

  bool types();

  // ---- calls

  // Too few inputs, too many, and a missing input must be refused. Without exceptions a refusal
  // would end the program, so nothing is tried.
  bool misuse();

  // ---- machines

  // Runs in a context like `home_` except for the given options.
  Result elsewhere(ContextOptions options);

  bool threads(const Result& plain);

  // Math::fast may use instructions that only some targets have.
  void targets();

  Context &context_, &home_;
  const Operator& op_;
  const OperatorSamples& samples_;
  Report& report_;
  const Sample* sample_ = nullptr;
};

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/impl/checker.ipp>
#endif
