// Operands and targets of any type and layout for tests of kernels, with the values that a kernel
// should see, by the scalar codec.
#pragma once

#include <soma/kernels/operand.hpp>
#include <soma/numeric/codec.hpp>
#include <soma/runtime/context.hpp>
#include <soma/tensor/dtype.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace soma_test {

enum class Layout { contiguous, padded_rows, transposed, every_other, one_row, one_column, scalar };

inline constexpr Layout layouts[] = {Layout::contiguous,  Layout::padded_rows, Layout::transposed,
                                     Layout::every_other, Layout::one_row,     Layout::one_column,
                                     Layout::scalar};

inline void put_code(std::uint32_t code, std::size_t width, std::byte* to) {
  std::memcpy(to, &code, width);  // little-endian
}

// A matrix in memory, and its values row by row.
struct StoredMatrix {
  std::vector<std::byte> bytes;
  soma::MatrixOperand operand;
  std::vector<float> values;
};

// Stores what next() returns; `values` holds it as the type keeps it, times scale.
template <class Next>
StoredMatrix store_matrix(std::size_t rows, std::size_t columns, soma::DType dtype, Layout layout,
                          Next next, float scale = 1, std::int32_t zero_point = 0) {
  StoredMatrix m;
  std::size_t row_stride = columns, column_stride = 1;
  if (layout == Layout::padded_rows) row_stride = columns + 3;
  if (layout == Layout::transposed) row_stride = 1, column_stride = rows + 2;
  if (layout == Layout::every_other) row_stride = 2 * columns + 1, column_stride = 2;
  if (layout == Layout::one_row || layout == Layout::scalar) row_stride = 0;
  if (layout == Layout::one_column || layout == Layout::scalar) column_stride = 0;
  if (layout == Layout::one_column) row_stride = 2;
  const std::size_t width = soma::size_of(dtype);
  const std::size_t size =
      rows == 0 || columns == 0 ? 0 : (rows - 1) * row_stride + (columns - 1) * column_stride + 1;
  m.bytes.resize(size * width);
  std::vector<float> stored(size);
  for (std::size_t i = 0; i < size; ++i) {
    const float value = next();
    if (soma::is_floating(dtype)) {
      const soma::FloatFormat& format = soma::format_of(dtype);
      const std::uint32_t code = soma::encode(format, value);
      put_code(code << format.storage_shift(), width, m.bytes.data() + i * width);
      stored[i] = soma::decode(format, code);
    } else {
      const auto integer = static_cast<std::int32_t>(
          dtype == soma::DType::int8 ? std::fmod(value * 40, 127.0f)
                                     : std::fmod(std::fabs(value) * 40, 255.0f));
      put_code(static_cast<std::uint32_t>(integer), width, m.bytes.data() + i * width);
      stored[i] = static_cast<float>(integer - zero_point);
    }
    if (scale != 1) stored[i] *= scale;
  }
  m.operand = {m.bytes.data(), dtype, row_stride, column_stride, scale, zero_point};
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      m.values.push_back(stored[r * row_stride + c * column_stride]);
  return m;
}

// Uniform in -range to range, the same for the same seed.
class RandomFloats {
 public:
  explicit RandomFloats(std::uint64_t seed, float range = 4) : draw_{.seed = seed}, range_(range) {}
  float operator()() {
    const auto word = static_cast<std::int32_t>(soma::random_word(draw_, next_++));
    return static_cast<float>(word >> 8) * 0x1p-23f * range_;
  }
  std::vector<float> many(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = (*this)();
    return values;
  }

 private:
  soma::Draw draw_;
  float range_;
  std::uint64_t next_ = 0;
};

// fp32 values as they are.
inline soma::MatrixOperand plain(const std::vector<float>& values, std::size_t columns) {
  return {values.data(), soma::DType::fp32, columns, 1, 1, 0};
}
inline soma::MatrixTarget plain_target(std::vector<float>& values, std::size_t columns) {
  soma::MatrixTarget target;
  target.data = values.data();
  target.row_stride = columns;
  return target;
}

// A target, by default with room behind its rows, which nobody may touch.
struct TargetMatrix {
  static constexpr std::byte untouched{0xA5};
  std::vector<std::byte> bytes;
  soma::MatrixTarget target;
  std::vector<std::uint64_t> indices;

  TargetMatrix(std::size_t rows, std::size_t columns, soma::DType dtype,
               const soma::Rounding& rounding = {}, bool by_indices = false, std::size_t gap = 5,
               std::size_t draw_gap = 7)
      : bytes((rows * (columns + gap)) * soma::size_of(dtype), untouched) {
    target = {
        bytes.data(),       dtype,  columns + gap, rounding, {.seed = 5, .stream = 3, .index = 11},
        columns + draw_gap, nullptr};
    for (std::size_t r = 0; r < rows; ++r) indices.push_back(1000 * ((r * 7) % (rows + 1)) + 3);
    if (by_indices) target.row_indices = indices.data();
  }

  // True if it holds these fp32 values rounded by the scalar codec, and nothing else has changed.
  bool holds(const std::vector<float>& values, std::size_t columns) const {
    const std::size_t width = soma::size_of(target.dtype);
    const soma::FloatFormat& format = soma::format_of(target.dtype);
    std::vector<std::byte> wanted(bytes.size(), untouched);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = i / columns, column = i % columns;
      soma::Draw draw = target.draw;
      draw.index +=
          (target.row_indices != nullptr ? target.row_indices[row] : row * target.draw_row_stride) +
          column;
      const std::uint32_t word =
          soma::rounding_word(draw, soma::random_bits(target.rounding, format));
      const std::uint32_t code = soma::encode(format, values[i], target.rounding, word);
      put_code(code << format.storage_shift(), width,
               wanted.data() + (row * target.row_stride + column) * width);
    }
    return wanted == bytes;
  }
};

// Equal bit by bit; a NaN equals any NaN.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) &&
        !(std::isnan(a[i]) && std::isnan(b[i])))
      return false;
  return true;
}

// The spacing of fp32 numbers at x, as a double.
inline double ulp_of(double x) {
  const double magnitude = std::fabs(x);
  if (magnitude < 0x1p-126) return 0x1p-149;
  return std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

}  // namespace soma_test
