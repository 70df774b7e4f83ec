#pragma once
// ScalarEngine::activate2(), of NeuronCore-v4.

#include <soma/neuroncore/engines/scalar_engine.hpp>

#include <soma/neuroncore/engines/lane_engine.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE ScalarEngine& ScalarEngine::activate2(const Tile& dst, const Tile& data,
                                                  Function function,
                                                  const Activate2Options& options,
                                                  SourceLine source) {
  const CallSite call{"activate2", source};
  check2(call, dst, data, function, options);
  const Running running = core_.begin(
      source, Opcode::activate2, lane,
      {{"data", data}, {"operand0", options.operand0.tile}, {"operand1", options.operand1.tile}},
      {{"dst", dst}}, {.operators = {options.op0, options.op1}});
  const Tile* result = options.reduce_result;
  if (result != nullptr)  // read out by an instruction of its own
    static_cast<void>(
        core_.begin(source, Opcode::activate2, lane, {}, {{"reduce_result", *result}}));
  if (core_.dry(dst)) {
    if (result != nullptr) core_.end(*result);
    return *this;
  }
  compute2(call, dst, data, function, options);
  core_.end(dst);
  if (result != nullptr) read_accumulators(*result, data);
  return *this;
}

SOMA_INLINE void ScalarEngine::check2(const CallSite& call, const Tile& dst, const Tile& data,
                                      Function function, const Activate2Options& options) {
  core_.check_has(call, Feature::activate2);
  check(call, dst, data, function, {.reduce_result = options.reduce_result});
  const Alu op0 = options.op0, op1 = options.op1;
  const bool single = op1 == Alu::none && (op0 == Alu::none || op0 == Alu::multiply ||
                                           op0 == Alu::add || op0 == Alu::subtract);
  if (!single && !(op0 == Alu::multiply && (op1 == Alu::add || op1 == Alu::subtract)))
    rule_broken(call, "op0 and op1",
                std::string(to_string(op0)) + " and " + std::string(to_string(op1)),
                "multiply with add, subtract or none; add, subtract or none with none");
  if ((options.reverse0 && op0 == Alu::none) || (options.reverse1 && op1 == Alu::none))
    rule_broken(call, "reverse", "an operator that is none", "an operator to reverse");
  for (const ScalarOperand* operand : {&options.operand0, &options.operand1}) {
    const std::string_view name = operand == &options.operand0 ? "operand0" : "operand1";
    check_constant(call, name, *operand);
    if (operand->tile.defined()) LaneEngine::check_column(call, {name, operand->tile}, data);
  }
}

SOMA_INLINE void ScalarEngine::compute2(const CallSite& call, const Tile& dst, const Tile& data,
                                        Function function, const Activate2Options& options) {
  const std::size_t count = data.free_size();
  const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
  const PartitionWriter writer(core_.kernels, core_.memory_of(dst), dst, options.rounded,
                               core_.options.overflow);
  const std::vector<float> first = column(options.operand0, data),
                           second = column(options.operand1, data);
  float* const accumulators = accumulators_.data() + data.first_partition();
  const FunctionInfo range = info(function);
  const bool limited = range.high < std::numeric_limits<float>::infinity();
  std::vector<std::uint64_t> flagged(limited ? data.partitions() : 0);
  const EngineKernels& kernels = core_.kernels;
  core_.for_partitions(
      data.partitions(), 3 * count + 64, count * 16, [&](std::size_t p, float* buffer) {
        float *x = buffer, *other = buffer + count + 16;
        reader.copy(p, x);
        if (options.op0 != Alu::none)
          kernels.alu_scalar(options.op0, x, first[p], options.reverse0, x, count);
        if (options.op1 != Alu::none)
          kernels.alu_scalar(options.op1, x, second[p], options.reverse1, x, count);
        if (limited) std::memcpy(other, x, count * sizeof(float));
        if (function != Function::copy) kernels.activate(function, x, x, count);
        if (limited) flagged[p] = check_range(function, range, other, x, count);
        std::memcpy(other, x, count * sizeof(float));
        if (options.reduce == Reduce::reset || options.reduce == Reduce::reset_reduce)
          accumulators[p] =
              options.fold == Fold::maximum                                             ? -HUGE_VALF
              : options.fold == Fold::minimum || options.fold == Fold::absolute_minimum ? HUGE_VALF
                                                                                        : 0;
        if (options.reduce == Reduce::reduce || options.reduce == Reduce::reset_reduce)
          accumulators[p] = fold(options.fold, accumulators[p], other, count);
        writer.write(p, x, other);
      });
  report_range(call, data, range, flagged);
}

SOMA_INLINE float ScalarEngine::fold(Fold fold, float start, float* x, std::size_t count) const {
  if (fold == Fold::add) return start + sum(x, count);
  if (fold == Fold::absolute_maximum || fold == Fold::absolute_minimum)
    for (std::size_t i = 0; i < count; ++i) x[i] = std::fabs(x[i]);
  const Alu op =
      fold == Fold::maximum || fold == Fold::absolute_maximum ? Alu::maximum : Alu::minimum;
  float folded[16] = {core_.kernels.reduce(op, x, count)};  // a vector for the kernel
  core_.kernels.alu_scalar(op, folded, start, false, folded, 1);
  return folded[0];
}

}  // namespace SOMA_NAMESPACE::neuroncore
