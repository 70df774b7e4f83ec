#pragma once
// QuantizeGrid: the bounds of ops::quantize's scaling blocks, and their distribution to threads.

#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace SOMA_NAMESPACE::detail {

constexpr bool has_one_scale(const Scaling& scaling) {
  return scaling.policy == ScalePolicy::none || scaling.granularity == Granularity::tensor;
}

// The division of x's rows and columns into scaling blocks.
class QuantizeGrid {
 public:
  QuantizeGrid(const QuantizeSetting& setting, const Sequences& sequences, std::size_t rows,
               std::size_t columns)
      : shards_(sequences, rows), whole_{0, rows}, columns_(columns) {
    const Granularity granularity = setting.quantizer.scaling.granularity;
    const ScalingBlock along = scaling_block(granularity);
    one_scale_ = has_one_scale(setting.quantizer.scaling);
    const bool turned = !one_scale_ && setting.along_rows && !is_square(granularity);
    group_rows_ = one_scale_ ? 1 : turned ? along.columns : along.rows;
    group_columns_ = one_scale_ ? 0 : turned ? along.rows : along.columns;
    const bool cut = !one_scale_ && !setting.parameter &&
                     (setting.along_rows || (group_rows_ > 1 && sequences.defined()));
    segments_ = cut ? shards_.get() : Segments{whole_.data(), 1};
    for (std::size_t i = 0; i < segments_.count; ++i) groups_ += groups_in(i);
  }
  QuantizeGrid(const QuantizeGrid&) = delete;
  QuantizeGrid& operator=(const QuantizeGrid&) = delete;

  bool one_scale() const { return one_scale_; }
  // The size of a scaling block: 0 rows means all rows of a shard, 0 columns all columns.
  std::size_t group_rows() const { return group_rows_; }
  std::size_t group_columns() const { return group_columns_; }
  // Rows and columns of scales.
  ScaleGrid scales() const {
    if (one_scale_) return {1, 1};
    return {groups_, group_columns_ == 0 ? 1 : (columns_ + group_columns_ - 1) / group_columns_};
  }

  // Calls call(first row, rows, first column, columns, row of scales) for parts that consist of
  // whole scaling blocks and lie in one shard, on all threads.
  template <class Call>
  void for_parts(Context& context, const Call& call) const {
    const std::size_t width =
        group_columns_ == 0 && !one_scale_ ? columns_ : (std::min)(columns_, part_columns);
    if (width == 0 || groups_ == 0) return;
    const std::size_t parts = (columns_ + width - 1) / width;
    const std::size_t rows = whole_[1] / groups_ + 1;
    for_ranges(context, groups_ * parts, rows * width, [&](std::size_t begin, std::size_t end) {
      while (begin != end) {
        const std::size_t column = begin / groups_ * width, first = begin % groups_;
        const std::size_t last = (std::min)(groups_, first + (end - begin));
        for_pieces(first, last, [&](std::size_t row, std::size_t count, std::size_t group) {
          call(row, count, column, (std::min)(width, columns_ - column), group);
        });
        begin += last - first;
      }
    });
  }

 private:
  static constexpr std::size_t part_columns = 2048;  // whole scaling blocks

  std::size_t groups_in(std::size_t segment) const {
    const std::size_t rows = segments_.bounds[segment + 1] - segments_.bounds[segment];
    const std::size_t step = group_rows_ == 0 ? (std::max)(rows, std::size_t{1}) : group_rows_;
    return (rows + step - 1) / step;
  }

  // Calls call(first row, rows, first group) for the part of groups first ... last - 1 in each
  // shard.
  template <class Call>
  void for_pieces(std::size_t first, std::size_t last, const Call& call) const {
    std::size_t before = 0;  // groups of the shards before
    for (std::size_t i = 0; i < segments_.count; ++i) {
      const std::size_t start = segments_.bounds[i], end = segments_.bounds[i + 1];
      const std::size_t step = group_rows_ == 0 ? end - start : group_rows_;
      const std::size_t from = (std::max)(first, before), count = groups_in(i);
      const std::size_t to = (std::min)(last, before + count);
      if (from < to) {
        const std::size_t row = start + (from - before) * step;
        call(row, (std::min)(end, start + (to - before) * step) - row, from);
      }
      before += count;
    }
  }

  RowSegments shards_;
  std::array<std::size_t, 2> whole_;
  std::size_t columns_, group_rows_ = 0, group_columns_ = 0, groups_ = 0;
  bool one_scale_ = false;
  Segments segments_{};
};

}  // namespace SOMA_NAMESPACE::detail
