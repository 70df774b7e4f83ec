#pragma once
// Operands of products as codes and scales: what a tape keeps of an operand that has scales for
// parts. One tensor of bytes has the rows of codes (8, 6 or 4 bits each, low bits first; a row
// begins at a byte), and then one scale for each scaling block. expanded() gives the numbers that
// ops::quantize makes without QuantizeSetting::codes, bit by bit.

#include <soma/kernels/quantize/args.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/ops/product/quantize_grid.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace SOMA_NAMESPACE::detail {

// True if numbers of this quantizer have a form as codes and scales.
constexpr bool has_codes(const Quantizer& quantizer) {
  return quantizer.format.bytes() == 1 && quantizer.scaling.policy == ScalePolicy::current &&
         !has_one_scale(quantizer.scaling) && !quantizer.own.defined();
}

constexpr StoredScale stored_scale(const Scaling& scaling) {
  return scaling.format == ScaleFormat::fp32   ? StoredScale::fp32
         : scaling.format == ScaleFormat::e4m3 ? StoredScale::e4m3
                                               : StoredScale::exponent;
}

// The bytes of a coded matrix.
struct CodedLayout {
  int code_bits;
  std::size_t row_bytes, codes, scale_bytes, all;  // a row, all rows, a scale, both

  constexpr CodedLayout(const Quantizer& quantizer, std::size_t rows, std::size_t columns,
                        std::size_t scales)
      : code_bits(quantizer.format.bits() <= 4   ? 4
                  : quantizer.format.bits() <= 6 ? 6
                                                 : 8),
        row_bytes((columns * static_cast<std::size_t>(code_bits) + 7) / 8),
        codes(rows * row_bytes),
        scale_bytes(stored_scale(quantizer.scaling) == StoredScale::fp32 ? sizeof(float) : 1),
        all(codes + scales * scale_bytes) {}
};

// A scale, which is exact in this form.
inline void store_scale(float scale, StoredScale form, std::byte* to) {
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  if (form == StoredScale::fp32)
    std::memcpy(to, &scale, sizeof scale);
  else if (form == StoredScale::exponent)  // the exponent's field: 255 of NaN, 0 of 2^-127
    *to = static_cast<std::byte>(bits >> 23);
  else if (!(scale == scale))
    *to = std::byte{0x7F};
  else
    *to = static_cast<std::byte>(scale < 0x1p-6f ? static_cast<std::uint32_t>(scale * 512)
                                                 : (bits >> 20) - (120u << 3));
}

// The numbers of a coded matrix, of this shape: with the setting and sequences that made it.
inline Tensor expanded(Context& context, const QuantizeSetting& setting, const Tensor& coded,
                       const Shape& shape, DType dtype, const Sequences& sequences) {
  const QuantizeGrid grid(setting, sequences, shape.rows(), shape.columns());
  const ScaleGrid scales = grid.scales();
  const CodedLayout layout(setting.quantizer, shape.rows(), shape.columns(), scales.size());
  Tensor y = Tensor::empty(context, shape, dtype);
  const auto* bytes = reinterpret_cast<const std::byte*>(coded.data<std::uint8_t>());
  const MatrixTarget to = target(y);
  grid.for_parts(context, [&](std::size_t row, std::size_t rows, std::size_t column,
                              std::size_t columns, std::size_t group) {
    const std::size_t width = grid.group_columns() == 0 ? columns : grid.group_columns();
    const std::size_t at = group * scales.columns + column / width;
    context.kernels().expand({.rows = rows,
                              .columns = columns,
                              .codes = bytes + row * layout.row_bytes +
                                       column * static_cast<std::size_t>(layout.code_bits) / 8,
                              .row_stride = layout.row_bytes,
                              .code_bits = layout.code_bits,
                              .format = setting.quantizer.format,
                              .scales = bytes + layout.codes + at * layout.scale_bytes,
                              .scale = stored_scale(setting.quantizer.scaling),
                              .group_rows = grid.group_rows(),
                              .group_columns = grid.group_columns(),
                              .group_stride = scales.columns,
                              .y = part(to, row, column)});
  });
  return y;
}

}  // namespace SOMA_NAMESPACE::detail
