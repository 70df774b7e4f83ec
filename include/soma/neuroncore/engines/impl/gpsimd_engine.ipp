#pragma once
// The GpSimd engine's element-wise instructions, and the memory that custom operators touch.

#include <soma/neuroncore/engines/gpsimd_engine.hpp>

#include <soma/numeric/portable_math.hpp>
#include <soma/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE GpsimdEngine& GpsimdEngine::tensor_tensor(const Tile& dst, const Tile& a, const Tile& b,
                                                      Alu op, const Rounded& rounded,
                                                      SourceLine source) {
  const CallSite call{"tensor_tensor", source};
  check_pair(call, {"a", a}, {"b", b}, dst);
  check_reached(call, {{"a", a}, {"b", b}, {"dst", dst}});
  if (op == Alu::none || is_unary(op) || is_bitwise(op))
    rule_broken(call, "op", std::string(to_string(op)),
                "an arithmetic operator of two operands on the GpSimd engine");
  const Running running = core_.begin(source, Opcode::tensor_tensor, lane, {{"a", a}, {"b", b}},
                                      {{"dst", dst}}, {.operators = {op}});
  if (core_.dry(dst)) return *this;
  const bool integers = (dst.dtype() == DType::int32 || dst.dtype() == DType::uint32) &&
                        a.dtype() == dst.dtype() && b.dtype() == dst.dtype();
  if (integers && (op == Alu::add || op == Alu::subtract || op == Alu::multiply))
    on_integers(dst, a, b, op);
  else
    on_floats(dst, a, b, op, rounded);
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::tensor_scalar(const Tile& dst, const Tile& data, Alu op,
                                                      const Rounded& rounded, SourceLine source) {
  const CallSite call{"tensor_scalar", source};
  check_same(call, dst, data);
  check_reached(call, {{"data", data}, {"dst", dst}});
  if (op != Alu::rsqrt)
    rule_broken(call, "op", std::string(to_string(op)), "rsqrt on the GpSimd engine");
  const Running running = core_.begin(source, Opcode::tensor_scalar, lane, {{"data", data}},
                                      {{"dst", dst}}, {.operators = {op}});
  if (core_.dry(dst)) return *this;
  const PartitionReader reader(core_.kernels, core_.sbuf, data);
  map(dst, rounded, 1, [&](std::size_t p, float* buffer, std::size_t count) {
    const float* x = reader.read(p, buffer);
    for (std::size_t i = 0; i < count; ++i)
      buffer[i] = static_cast<float>(1 / std::sqrt(static_cast<double>(x[i])));
    return buffer;
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::copy(const Tile& dst, const Tile& src,
                                             const Rounded& rounded, SourceLine source) {
  check_same({"copy", source}, dst, src);
  check_reached({"copy", source}, {{"src", src}, {"dst", dst}});
  const Running running = core_.begin(source, Opcode::copy, lane, {{"src", src}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  copy_elements(dst, src, rounded);
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::memset(const Tile& dst, const Constant& value,
                                               const Rounded& rounded, SourceLine source) {
  core_.check_free({"memset", source}, {"dst", dst});
  check_constant({"memset", source}, "value", value);
  check_reached({"memset", source}, {{"dst", dst}});
  const Running running =
      core_.begin(source, Opcode::memset, lane, {}, {{"dst", dst}}, {.zero = is_zero(value.value)});
  if (core_.dry(dst)) return *this;
  fill(dst, value.value, rounded);
  core_.end(dst);
  return *this;
}

SOMA_INLINE void GpsimdEngine::touch(const SourceLine& source, Position at, const Tensor& tensor,
                                     bool writes) {
  if (!tensor.defined() || tensor.elements() == 0) return;
  std::size_t last = 0;
  for (std::size_t i = 0; i < tensor.rank(); ++i)
    last += (tensor.size(i) - 1) * tensor.strides()[i];
  const Region region(Region::Space::hbm, 0, 1, reinterpret_cast<std::uintptr_t>(tensor.raw()),
                      (last + 1) * size_of(tensor.dtype()), nullptr, 0);
  core_.touch(source, Opcode::custom_operator, at, region, writes);
}

SOMA_INLINE void GpsimdEngine::on_integers(const Tile& dst, const Tile& a, const Tile& b, Alu op) {
  const std::size_t count = dst.free_size();
  std::vector<std::uint32_t> x(count), y(count);  // unsigned numbers wrap around
  for (std::size_t p = 0; p < dst.partitions(); ++p) {
    read_codes(core_.sbuf, a, p, x.data());
    read_codes(core_.sbuf, b, p, y.data());
    for (std::size_t i = 0; i < count; ++i)
      x[i] = op == Alu::add ? x[i] + y[i] : op == Alu::subtract ? x[i] - y[i] : x[i] * y[i];
    write_codes(core_.sbuf, dst, p, x.data());
  }
}

SOMA_INLINE void GpsimdEngine::on_floats(const Tile& dst, const Tile& a, const Tile& b, Alu op,
                                         const Rounded& rounded) {
  const PartitionReader left(core_.kernels, core_.sbuf, a), right(core_.kernels, core_.sbuf, b);
  map(dst, rounded, 3, [&, this](std::size_t p, float* buffer, std::size_t count) {
    float* out = buffer + 2 * padded(count);
    const float *x = left.read(p, buffer), *y = right.read(p, buffer + padded(count));
    if (op != Alu::power) {
      core_.kernels.alu(op, x, y, out, count);
    } else {
      for (std::size_t i = 0; i < count; ++i) out[i] = power(x[i], y[i]);
    }
    return out;
  });
}

SOMA_INLINE float GpsimdEngine::power(float base, float exponent) {
  const auto b = static_cast<double>(base), e = static_cast<double>(exponent);
  if (!std::signbit(base)) return static_cast<float>(portable_pow(b, e));
  const bool whole = std::isinf(exponent) || std::trunc(exponent) == exponent;
  if (!whole && base != 0 && std::isfinite(base)) return static_cast<float>(portable_pow(b, e));
  const bool odd = whole && std::isfinite(exponent) && std::fmod(e, 2.0) != 0;
  const double magnitude = portable_pow(-b, e);
  return static_cast<float>(odd ? -magnitude : magnitude);
}

}  // namespace SOMA_NAMESPACE::neuroncore
