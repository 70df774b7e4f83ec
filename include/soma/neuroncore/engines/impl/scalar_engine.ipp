#pragma once
// The functions of scalar_engine.hpp.

#include <soma/neuroncore/engines/scalar_engine.hpp>

#include <soma/neuroncore/engines/lane_engine.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE ScalarEngine& ScalarEngine::activation(const Tile& dst, const Tile& data,
                                                   Function function,
                                                   const ActivationOptions& options,
                                                   SourceLine source) {
  const CallSite call{"activation", source};
  check(call, dst, data, function, options);
  static const Tile none;
  const Running running =
      core_.begin(source, Opcode::activation, lane,
                  {{"data", data},
                   {"scale", options.scale_tile != nullptr ? *options.scale_tile : none},
                   {"bias", options.bias != nullptr ? *options.bias : none}},
                  {{"dst", dst}});
  if (options.reduce_result != nullptr)  // read out by an instruction of its own
    static_cast<void>(core_.begin(source, Opcode::activation, lane, {},
                                  {{"reduce_result", *options.reduce_result}}));
  if (core_.dry(dst)) {
    if (options.reduce_result != nullptr) core_.end(*options.reduce_result);
    return *this;
  }
  compute(call, dst, data, function, options);
  core_.end(dst);
  if (options.reduce_result != nullptr) read_accumulators(*options.reduce_result, data);
  return *this;
}

SOMA_INLINE void ScalarEngine::read_accumulators(const Tile& result, const Tile& data) {
  const auto first = accumulators_.begin() + static_cast<std::ptrdiff_t>(data.first_partition());
  write_column(result, {first, first + static_cast<std::ptrdiff_t>(data.partitions())});
}

SOMA_INLINE ScalarEngine& ScalarEngine::activation_reduce(const Tile& dst, const Tile& data,
                                                          Function function,
                                                          const Tile& reduce_result,
                                                          ActivationOptions options,
                                                          SourceLine source) {
  options.reduce = Reduce::reset_reduce;
  options.reduce_result = &reduce_result;
  return activation(dst, data, function, options, source);
}

SOMA_INLINE ScalarEngine& ScalarEngine::copy(const Tile& dst, const Tile& src,
                                             const Rounded& rounded, SourceLine source) {
  if (!core_.machine.rules.exact_scalar_copies)
    return activation(dst, src, Function::copy, {.rounded = rounded}, source);
  check_same({"copy", source}, dst, src);
  const Running running = core_.begin(source, Opcode::copy, lane, {{"src", src}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  copy_elements(dst, src, rounded);
  core_.end(dst);
  return *this;
}

SOMA_INLINE void ScalarEngine::check(const CallSite& call, const Tile& dst, const Tile& data,
                                     Function function, const ActivationOptions& options) {
  core_.check_free(call, {"data", data});
  core_.check_free(call, {"dst", dst});
  CoreState::check_same_size(call, {"data", data}, {"dst", dst});
  const auto check_column = [&](std::string_view operand, const Tile* tile) {
    if (tile == nullptr) return;
    core_.check(call, {operand, *tile});
    CoreState::check_same_partitions(call, {"data", data}, {operand, *tile});
    if (tile->free_size() != 1)
      rule_broken(call, {operand, *tile}, tile->describe(), "one element a partition");
  };
  check_column("scale", options.scale_tile);
  check_column("bias", options.bias);
  check_column("reduce_result", options.reduce_result);
  if (options.bias_number != 0) core_.check_has(call, Feature::number_bias);
  if (options.bias_number != 0 && options.bias != nullptr)
    rule_broken(call, {"bias", *options.bias}, options.bias->describe(),
                "a tile or a number other than 0, not both");
  if (options.scale_tile != nullptr && options.scale_tile->dtype() != DType::fp32)
    rule_broken(call, {"scale", *options.scale_tile}, options.scale_tile->describe(), "fp32");
  if (options.bias != nullptr && options.bias->dtype() == DType::tf32)
    rule_broken(call, {"bias", *options.bias}, options.bias->describe(), "a type other than tf32");
  if (options.bias != nullptr && function == Function::reciprocal)
    rule_broken(call, {"bias", *options.bias}, options.bias->describe(), "no bias with reciprocal");
  if (options.bias_number != 0 && function == Function::reciprocal)
    rule_broken(call, "bias_number", text_of(options.bias_number), "no bias with reciprocal");
}

SOMA_INLINE void ScalarEngine::compute(const CallSite& call, const Tile& dst, const Tile& data,
                                       Function function, const ActivationOptions& options) {
  const std::size_t count = data.free_size();
  const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
  const PartitionWriter writer(core_.kernels, core_.memory_of(dst), dst, options.rounded,
                               core_.options.overflow);
  const std::vector<float> scales = column_or_none(options.scale_tile);
  const std::vector<float> biases = column_or_none(options.bias);
  float* const accumulators = accumulators_.data() + data.first_partition();
  const FunctionInfo range = info(function);
  const bool limited = range.high < std::numeric_limits<float>::infinity();
  std::vector<std::uint64_t> flagged(limited ? data.partitions() : 0);
  const EngineKernels& kernels = core_.kernels;
  core_.for_partitions(
      data.partitions(), 3 * count + 32, count * 16, [&](std::size_t p, float* buffer) {
        float *x = buffer, *other = buffer + count + 16;
        reader.copy(p, x);
        const float scale = scales.empty() ? options.scale : scales[p];
        if (scale != 1) kernels.alu_scalar(Alu::multiply, x, scale, false, x, count);
        const float bias = biases.empty() ? options.bias_number : biases[p];
        if (!biases.empty() || bias != 0) kernels.alu_scalar(Alu::add, x, bias, false, x, count);
        if (limited) std::memcpy(other, x, count * sizeof(float));
        if (function != Function::copy) kernels.activate(function, x, x, count);
        if (limited) flagged[p] = check_range(function, range, other, x, count);
        if (options.reduce == Reduce::reset || options.reduce == Reduce::reset_reduce)
          accumulators[p] = 0;
        if (options.reduce == Reduce::reduce || options.reduce == Reduce::reset_reduce)
          accumulators[p] += sum(x, count);
        writer.write(p, x, other);
      });
  report_range(call, data, range, flagged);
}

SOMA_INLINE void ScalarEngine::report_range(const CallSite& call, const Tile& data,
                                            const FunctionInfo& range,
                                            const std::vector<std::uint64_t>& flagged) {
  for (const std::uint64_t elements : flagged) core_.statistics.out_of_range += elements;
  if (core_.options.out_of_range == OutOfRange::error)
    for (std::size_t p = 0; p < flagged.size(); ++p)
      if (flagged[p] != 0)
        undefined(call, {"data", data},
                  std::to_string(flagged[p]) + " elements of partition " + std::to_string(p) +
                      " outside the range of " + std::string(range.name),
                  "[" + text_of(range.low) + ", " + text_of(range.high) + "]");
}

SOMA_INLINE std::uint64_t ScalarEngine::check_range(Function function, const FunctionInfo& range,
                                                    const float* arguments, float* results,
                                                    std::size_t count) const {
  const bool by_magnitude = function == Function::reciprocal;
  std::uint64_t outside = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float x = by_magnitude ? std::fabs(arguments[i]) : arguments[i];
    if (x >= range.low && x <= range.high) continue;
    ++outside;
    if (core_.options.out_of_range == OutOfRange::nan)
      results[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return outside;
}

SOMA_INLINE float ScalarEngine::sum(const float* x, std::size_t count) const {
  if (core_.options.reduce_order == ReduceOrder::lanes)
    return core_.kernels.reduce(Alu::add, x, count);
  float total = 0;
  for (std::size_t i = 0; i < count; ++i) total += x[i];
  return total;
}

SOMA_INLINE std::vector<float> ScalarEngine::column_or_none(const Tile* tile) {
  return tile == nullptr ? std::vector<float>{} : column(*tile);
}

}  // namespace SOMA_NAMESPACE::neuroncore
