#pragma once
// RowPartition: which rows of a gradient each rank keeps.

#include <soma/parallel/partition.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace soma {

// Of a variable, or of a parameter that is some of its rows (Parameter), or of a sparse gradient
// that has some of them; counted in those.
class RowPartition final : public Partition {
 public:
  // A tensor without dimensions counts as one row.
  explicit RowPartition(const Shape& shape, std::size_t first_row = 0,
                        std::size_t last_row = to_end)
      : rows_(shape.rank() == 0 ? 1 : shape[0]),
        row_elements_(rows_ == 0 ? 0 : shape.elements() / rows_),
        first_(first_row),
        last_((std::min)(last_row, rows_)) {}

  // Of these rows only, ascending, which stay where they are.
  RowPartition only(std::span<const std::int64_t> rows) const {
    RowPartition result = *this;
    result.sparse_ = true;
    result.present_ = rows;
    return result;
  }

  Part part(int rank, int ranks) const override {
    const Part all = owned_rows(rows_, row_elements_, rank, ranks);
    const std::size_t begin = (std::clamp)(all.begin, first_, last_);
    const std::size_t end = (std::clamp)(all.end(), first_, last_);
    if (!sparse_) return {begin - first_, end - begin};
    const auto place = [&](std::size_t row) {
      const auto number = static_cast<std::int64_t>(row - first_);
      return static_cast<std::size_t>(std::lower_bound(present_.begin(), present_.end(), number) -
                                      present_.begin());
    };
    return {place(begin), place(end) - place(begin)};
  }
  std::size_t row_elements() const { return row_elements_; }

 private:
  std::size_t rows_, row_elements_, first_, last_;
  bool sparse_ = false;
  std::span<const std::int64_t> present_{};
};

}  // namespace soma
