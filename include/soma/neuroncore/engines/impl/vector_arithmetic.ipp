#pragma once
// The arithmetic of the Vector engine, on fp32 and on the stored bits of integers, and its checks.

#include <soma/neuroncore/engines/vector_engine.hpp>

#include <soma/neuroncore/engines/bit_operators.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE VectorEngine& VectorEngine::tensor_tensor(const Tile& dst, const Tile& a, const Tile& b,
                                                      Alu op, const Rounded& rounded,
                                                      SourceLine source) {
  const CallSite call{"tensor_tensor", source};
  check_pair(call, {"a", a}, {"b", b}, dst);
  check_operator(call, op);
  check_binary(call, op);
  check_bits(call, op, {{"a", a}, {"b", b}, {"dst", dst}});
  const Running running = core_.begin(source, Opcode::tensor_tensor, lane, {{"a", a}, {"b", b}},
                                      {{"dst", dst}}, {.operators = {op}});
  if (core_.dry(dst)) return *this;
  if (is_bitwise(op)) {
    on_bits(call, dst, a, &b, 0, op, false);
  } else {
    const PartitionReader left(core_.kernels, core_.memory_of(a), a);
    const PartitionReader right(core_.kernels, core_.memory_of(b), b);
    map(dst, rounded, 3, [&, this](std::size_t p, float* buffer, std::size_t count) {
      float* out = buffer + 2 * padded(count);
      core_.kernels.alu(op, left.read(p, buffer), right.read(p, buffer + padded(count)), out,
                        count);
      return out;
    });
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::tensor_scalar(const Tile& dst, const Tile& data, Alu op0,
                                                      const ScalarOperand& s0, Alu op1,
                                                      const ScalarOperand& s1,
                                                      const ScalarOptions& options,
                                                      SourceLine source) {
  const CallSite call{"tensor_scalar", source};
  check_scalar(call, dst, data, op0, s0, op1, s1, options);
  std::uint32_t bits0 = 0, bits1 = 0;
  if (is_bitwise(op0)) {
    bits0 = detail::bits_of_constant(call, "s0", s0);
    bits1 = detail::bits_of_constant(call, "s1", s1);
  }
  const Running running = core_.begin(source, Opcode::tensor_scalar, lane,
                                      {{"data", data}, {"s0", s0.tile}, {"s1", s1.tile}},
                                      {{"dst", dst}}, {.operators = {op0, op1}});
  if (core_.dry(dst)) return *this;
  if (is_bitwise(op0)) {
    on_bits(call, dst, data, nullptr, bits0, op0, options.reverse0);
    if (op1 != Alu::none) on_bits(call, dst, dst, nullptr, bits1, op1, options.reverse1);
  } else {
    const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
    const std::vector<float> first = column(s0, data), second = column(s1, data);
    map(dst, options.rounded, 1, [&, this](std::size_t p, float* buffer, std::size_t count) {
      const float* x = reader.read(p, buffer);
      scalar_step(op0, x, first[p], options.reverse0, buffer, count);
      scalar_step(op1, buffer, second[p], options.reverse1, buffer, count);
      return buffer;
    });
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::tensor_scalar_reduce(const Tile& dst, const Tile& data,
                                                             Alu op0, const ScalarOperand& s0,
                                                             Alu reduction, const Tile& result,
                                                             const ScalarOptions& options,
                                                             SourceLine source) {
  const CallSite call{"tensor_scalar_reduce", source};
  check_scalar(call, dst, data, op0, s0, Alu::none, {}, options);
  check_arithmetic(call, op0);
  check_reduction(call, reduction);
  check_column(call, {"result", result}, data);
  const Running running =
      core_.begin(source, Opcode::tensor_scalar_reduce, lane, {{"data", data}, {"s0", s0.tile}},
                  {{"dst", dst}, {"result", result}}, {.operators = {op0, reduction}});
  if (core_.dry(dst)) {
    core_.end(result);
    return *this;
  }
  const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
  const std::vector<float> first = column(s0, data);
  std::vector<float> totals(data.partitions());
  map(dst, options.rounded, 1, [&, this](std::size_t p, float* buffer, std::size_t count) {
    const float* x = reader.read(p, buffer);
    scalar_step(op0, x, first[p], options.reverse0, buffer, count);
    totals[p] = reduce(reduction, buffer, count);
    return buffer;
  });
  core_.end(dst);
  write_column(result, totals);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::scalar_tensor_tensor(const Tile& dst, const Tile& data,
                                                             Alu op0, const ScalarOperand& s0,
                                                             Alu op1, const Tile& operand1,
                                                             const ScalarOptions& options,
                                                             SourceLine source) {
  const CallSite call{"scalar_tensor_tensor", source};
  check_scalar(call, dst, data, op0, s0, Alu::none, {}, options);
  check_pair(call, {"data", data}, {"operand1", operand1}, dst);
  check_arithmetic(call, op0);
  check_arithmetic(call, op1);
  check_binary(call, op1);
  const Running running = core_.begin(source, Opcode::scalar_tensor_tensor, lane,
                                      {{"data", data}, {"operand1", operand1}, {"s0", s0.tile}},
                                      {{"dst", dst}}, {.operators = {op0, op1}});
  if (core_.dry(dst)) return *this;
  const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
  const PartitionReader other(core_.kernels, core_.memory_of(operand1), operand1);
  const std::vector<float> first = column(s0, data);
  map(dst, options.rounded, 2, [&, this](std::size_t p, float* buffer, std::size_t count) {
    float* right = buffer + padded(count);
    scalar_step(op0, reader.read(p, buffer), first[p], options.reverse0, buffer, count);
    const float* b = other.read(p, right);
    options.reverse1 ? core_.kernels.alu(op1, b, buffer, buffer, count)
                     : core_.kernels.alu(op1, buffer, b, buffer, count);
    return buffer;
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::tensor_reduce(const Tile& dst, const Tile& data, Alu op,
                                                      std::size_t dimensions, bool negate,
                                                      const Rounded& rounded, SourceLine source) {
  const CallSite call{"tensor_reduce", source};
  core_.check_free(call, {"data", data});
  core_.check_free(call, {"dst", dst});
  CoreState::check_same_partitions(call, {"data", data}, {"dst", dst});
  check_fold(call, op);
  check_bits(call, op, {{"data", data}, {"dst", dst}});
  if (is_bitwise(op) && negate)
    rule_broken(call, "negate", "true", "false with " + std::string(to_string(op)));
  if (dimensions == 0 || dimensions > data.rank())
    rule_broken(call, "dimensions", std::to_string(dimensions),
                "1 to the free dimensions of " + data.describe());
  std::size_t folded = 1;
  for (std::size_t i = data.rank() - dimensions; i < data.rank(); ++i)
    folded *= data.dimension(i).size;
  if (dst.free_size() * folded != data.free_size())
    rule_broken(call, {"dst", dst}, dst.describe(),
                std::to_string(data.free_size() / folded) + " elements a partition");
  const Running running = core_.begin(source, Opcode::tensor_reduce, lane, {{"data", data}},
                                      {{"dst", dst}}, CoreState::cost_of(data, op));
  if (core_.dry(dst)) return *this;
  is_bitwise(op) ? fold_bits(dst, data, op, folded)
                 : fold_floats(dst, data, op, folded, negate, rounded);
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::reciprocal(const Tile& dst, const Tile& src,
                                                   const Rounded& rounded, SourceLine source) {
  check_same({"reciprocal", source}, dst, src);
  const Running running =
      core_.begin(source, Opcode::reciprocal, lane, {{"src", src}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  const PartitionReader reader(core_.kernels, core_.memory_of(src), src);
  map(dst, rounded, 2, [&, this](std::size_t p, float* buffer, std::size_t count) {
    const float* x = reader.read(p, buffer);
    core_.kernels.activate(Function::reciprocal, x, buffer, count);
    return buffer;
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::copy(const Tile& dst, const Tile& src,
                                             const Rounded& rounded, SourceLine source) {
  check_same({"copy", source}, dst, src);
  const Running running = core_.begin(source, Opcode::copy, lane, {{"src", src}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  copy_elements(dst, src, rounded);
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::memset(const Tile& dst, const Constant& value,
                                               const Rounded& rounded, SourceLine source) {
  core_.check_free({"memset", source}, {"dst", dst});
  check_constant({"memset", source}, "value", value);
  const Running running =
      core_.begin(source, Opcode::memset, lane, {}, {{"dst", dst}}, {.zero = is_zero(value.value)});
  if (core_.dry(dst)) return *this;
  fill(dst, value.value, rounded);
  core_.end(dst);
  return *this;
}

SOMA_INLINE void VectorEngine::check_operator(const CallSite& call, Alu op) {
  if (is_gpsimd_only(op) || op == Alu::none)
    rule_broken(call, "op", std::string(to_string(op)), "an operator of the Vector engine");
}

SOMA_INLINE void VectorEngine::check_arithmetic(const CallSite& call, Alu op) {
  check_operator(call, op);
  if (is_bitwise(op)) rule_broken(call, "op", std::string(to_string(op)), "an arithmetic operator");
}

SOMA_INLINE void VectorEngine::check_binary(const CallSite& call, Alu op) {
  if (is_unary(op))
    rule_broken(call, "op", std::string(to_string(op)), "an operator of two operands");
}

SOMA_INLINE void VectorEngine::check_reduction(const CallSite& call, Alu op) {
  if (!is_reduction(op))
    rule_broken(call, "op", std::string(to_string(op)), "add, multiply, maximum or minimum");
}

SOMA_INLINE void VectorEngine::check_fold(const CallSite& call, Alu op) {
  if (op == Alu::subtract)
    undisclosed(call, "op", "subtract",
                "an operator for which the order does not matter: the order of the reduction is "
                "not published");
  if (!is_fold(op))
    rule_broken(call, "op", std::string(to_string(op)),
                "add, multiply, maximum, minimum, or and, or, xor");
}

SOMA_INLINE void VectorEngine::check_bits(const CallSite& call, Alu op,
                                          std::initializer_list<Operand> operands) {
  if (!is_bitwise(op)) return;
  const Tile& first = operands.begin()->tile;
  for (const Operand& operand : operands) {
    CoreState::check_integer(call, operand);
    if (size_of(operand.tile.dtype()) != size_of(first.dtype()))
      rule_broken(call, operand, operand.tile.describe(), "the width of " + first.describe());
  }
}

SOMA_INLINE void VectorEngine::check_unary(const CallSite& call, Alu op, const Operand& named,
                                           float value, bool reverse) {
  if (!is_unary(op)) return;
  const std::string reason = ", as " + std::string(to_string(op)) + " has one operand";
  if (named.tile.defined() || !is_zero(value))
    rule_broken(call, named, named.tile.defined() ? named.tile.describe() : text_of(value),
                "0" + reason);
  if (reverse) rule_broken(call, named, "the first operand", "no reverse order" + reason);
}

SOMA_INLINE void VectorEngine::check_scalar(const CallSite& call, const Tile& dst, const Tile& data,
                                            Alu op0, const ScalarOperand& s0, Alu op1,
                                            const ScalarOperand& s1, const ScalarOptions& options) {
  check_same(call, dst, data);
  check_operator(call, op0);
  if (op1 != Alu::none) check_operator(call, op1);
  for (const ScalarOperand* operand : {&s0, &s1}) {
    const Operand named{operand == &s0 ? "s0" : "s1", operand->tile};
    operand == &s0 ? check_unary(call, op0, named, s0.value, options.reverse0)
                   : check_unary(call, op1, named, s1.value, options.reverse1);
    if (!is_bitwise(op0)) check_constant(call, named.name, *operand);
    if (!operand->tile.defined()) continue;
    check_column(call, named, data);
    check_type(call, named, DType::fp32);
  }
  if (op1 != Alu::none && is_bitwise(op0) != is_bitwise(op1))
    rule_broken(call, "op1", std::string(to_string(op1)),
                "arithmetic or on bits as op0, " + std::string(to_string(op0)));
  if (is_bitwise(op0) && (s0.tile.defined() || s1.tile.defined()))
    not_implemented(call, s0.tile.defined() ? "s0" : "s1",
                    (s0.tile.defined() ? s0 : s1).tile.describe(),
                    "a constant, with operators on bits");
  check_bits(call, op0, {{"data", data}, {"dst", dst}});
}

SOMA_INLINE void VectorEngine::scalar_step(Alu op, const float* x, float scalar, bool reverse,
                                           float* out, std::size_t count) {
  if (op == Alu::none) {
    if (out != x) std::memcpy(out, x, count * sizeof(float));
    return;
  }
  core_.kernels.alu_scalar(op, x, scalar, reverse, out, count);
}

SOMA_INLINE float VectorEngine::reduce(Alu op, const float* x, std::size_t count) const {
  if (is_reduction(op) && core_.options.reduce_order == ReduceOrder::lanes)
    return core_.kernels.reduce(op, x, count);
  // The logical operators also turn a single element into 0 or 1.
  float total = is_reduction(op) ? x[0] : identity_of(op);
  for (std::size_t i = is_reduction(op) ? 1 : 0; i < count; ++i)
    core_.kernels.alu(op, &total, x + i, &total, 1);
  return total;
}

SOMA_INLINE void VectorEngine::on_bits(const CallSite& call, const Tile& dst, const Tile& a,
                                       const Tile* b, std::uint32_t constant, Alu op,
                                       bool reverse) {
  const std::size_t count = dst.free_size(), width = 8 * size_of(a.dtype());
  std::vector<std::uint32_t> x(count), y(count, constant);
  for (std::size_t p = 0; p < dst.partitions(); ++p) {
    detail::read_bits(core_.memory_of(a), a, p, x);
    if (b != nullptr) detail::read_bits(core_.memory_of(*b), *b, p, y);
    for (std::size_t i = 0; i < count; ++i)
      x[i] = reverse ? detail::bits(call, op, y[i], x[i], width)
                     : detail::bits(call, op, x[i], y[i], width);
    detail::write_bits(core_.memory_of(dst), dst, p, x);
  }
}

SOMA_INLINE void VectorEngine::fold_bits(const Tile& dst, const Tile& data, Alu op,
                                         std::size_t folded) {
  std::vector<std::uint32_t> x(data.free_size()), out(dst.free_size());
  for (std::size_t p = 0; p < data.partitions(); ++p) {
    detail::read_bits(core_.memory_of(data), data, p, x);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = x[i * folded];
      for (std::size_t j = 1; j < folded; ++j)
        out[i] = detail::bits("tensor_reduce", op, out[i], x[i * folded + j], 32);
    }
    detail::write_bits(core_.memory_of(dst), dst, p, out);
  }
}

SOMA_INLINE void VectorEngine::fold_floats(const Tile& dst, const Tile& data, Alu op,
                                           std::size_t folded, bool negate,
                                           const Rounded& rounded) {
  const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
  const PartitionWriter writer(core_.kernels, core_.memory_of(dst), dst, rounded,
                               core_.options.overflow);
  const std::size_t count = data.free_size(), kept = dst.free_size();
  core_.for_partitions(data.partitions(), padded(count) + 2 * padded(kept), count * 4,
                       [&](std::size_t p, float* buffer) {
                         const float* x = reader.read(p, buffer);
                         float* out = buffer + padded(count);
                         for (std::size_t i = 0; i < kept; ++i) {
                           const float total = reduce(op, x + i * folded, folded);
                           out[i] = negate ? -total : total;
                         }
                         writer.write(p, out, out + padded(kept));
                       });
}

}  // namespace SOMA_NAMESPACE::neuroncore
