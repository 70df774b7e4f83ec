#pragma once
// The settings of operators over sequences.

#include <soma/ops/fields.hpp>

#include <cstddef>

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

struct RotarySetting {
  std::size_t heads = 1;  // side by side in the columns that are turned
  // The number of columns that are rotated, from the first on; the others are copied. 0: all.
  std::size_t columns = 0;
  float base = 10000;  // the slowest pair of a head of D columns turns by base^(2 / D - 1) a row
  std::size_t first_position = 0;  // the position of the first row of each sequence
};
inline void fields(FieldVisitor& visitor, RotarySetting& setting) {
  visitor.key("heads", setting.heads);
  visitor.key("columns", setting.columns);
  visitor.key("base", setting.base, NumberRange::at_least(1));
  visitor.key("first_position", setting.first_position);
}

struct SequencePoolSetting {
  bool largest = false;  // false: the mean of the rows; true: the largest element of each column
};
inline void fields(FieldVisitor& visitor, SequencePoolSetting& setting) {
  visitor.key("largest", setting.largest);
}

}  // namespace SOMA_NAMESPACE
