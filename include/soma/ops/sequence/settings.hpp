#pragma once
// The settings of operators over sequences.

#include <soma/ops/fields.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

struct RecurrentSetting {
  bool reverse = false;  // from the last row of each sequence to the first
};
inline void fields(FieldVisitor& visitor, RecurrentSetting& setting) {
  visitor.key("reverse", setting.reverse);
}

struct RnnSetting {
  bool reverse = false;  // as in RecurrentSetting
  bool relu = false;     // false: tanh
};
inline void fields(FieldVisitor& visitor, RnnSetting& setting) {
  visitor.key("reverse", setting.reverse);
  visitor.key("relu", setting.relu);
}

// Slower turns for sequences that are longer than those a model began with. With the wavelength
// w = 2 pi / f of a pair that turns by f a row, and P = original_positions:
//   linear  f / factor
//   llama3  f if w < P / high_frequency_factor; f / factor if w > P / low_frequency_factor; between
//           the two (1 - s) f / factor + s f, with
//           s = (P / w - low_frequency_factor) / (high_frequency_factor - low_frequency_factor)
struct RotaryScaling {
  enum class Kind : std::uint8_t { none, linear, llama3 };
  Kind kind = Kind::none;
  float factor = 1;  // at least 1
  float low_frequency_factor = 1, high_frequency_factor = 4;
  std::size_t original_positions = 8192;
};
inline void fields(FieldVisitor& visitor, RotaryScaling& scaling) {
  visitor.key("kind", scaling.kind);
  visitor.key("factor", scaling.factor, NumberRange::at_least(1));
  visitor.key("low_frequency_factor", scaling.low_frequency_factor, NumberRange::above(0));
  visitor.key("high_frequency_factor", scaling.high_frequency_factor, NumberRange::above(0));
  visitor.key("original_positions", scaling.original_positions, NumberRange::at_least(1));
}

struct RotarySetting {
  std::size_t heads = 1;  // side by side in the columns that are turned
  // The number of columns that are rotated, from the first on; the others are copied. 0: all.
  std::size_t columns = 0;
  float base = 10000;  // the slowest pair of a head of D columns turns by base^(2 / D - 1) a row
  std::size_t first_position = 0;  // the position of the first row of each sequence
  RotaryScaling scaling{};
};
inline void fields(FieldVisitor& visitor, RotarySetting& setting) {
  visitor.key("heads", setting.heads);
  visitor.key("columns", setting.columns);
  visitor.key("base", setting.base, NumberRange::at_least(1));
  visitor.key("first_position", setting.first_position);
  // Listed where it is given, so that keys without it stay as they are.
  if (setting.scaling.kind != RotaryScaling::Kind::none) visitor.key("scaling", setting.scaling);
}

struct SequencePoolSetting {
  bool largest = false;  // false: the mean of the rows; true: the largest element of each column
};
inline void fields(FieldVisitor& visitor, SequencePoolSetting& setting) {
  visitor.key("largest", setting.largest);
}

}  // namespace SOMA_NAMESPACE
