#pragma once
// How convert() checks its arguments, cuts a matrix into items of work and runs them.
//
// An item is a band of rows by a segment of columns. Only the scaling block of a whole tensor spans
// several items, so each item computes the scales and amax of its own scaling blocks. A tensor's
// single amax is a maximum, which does not depend on order.

#include <soma/kernels/convert/convert.hpp>
#include <soma/runtime/float_environment.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace SOMA_NAMESPACE::detail {

std::string describe(const ConstCodeSpan& span);

void check_layout(const ConstCodeSpan& span, const char* argument);

// The bytes from the start of the first element to the end of the last.
std::size_t extent(const ConstCodeSpan& span);

bool overlaps(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes);

void check_scale_count(const char* argument, std::size_t given, std::size_t wanted);

void check_convert(const ConstCodeSpan& from, const CodeSpan& to, const ConvertOptions& options);

// The largest of many floats that are not negative, from any thread. The bits of such floats ascend
// with their values.
class AtomicMaximum {
 public:
  void include(float value);
  float value() const;

 private:
  std::atomic<std::uint32_t> bits_{0};
};

class ConvertPlan {
 public:
  ConvertPlan(Context& context, ConstCodeSpan from, CodeSpan to, const ConvertOptions& options);

  void run();

 private:
  // 128 KiB of floats: large compared with the cost of handing out work, small compared with a
  // second-level cache.
  static constexpr std::size_t item_elements = 32768;
  // Half of a large last-level cache: the start of a longer target is evicted before it can be read
  // from there.
  static constexpr std::size_t streaming_bytes = std::size_t{16} << 20;
  static constexpr std::size_t most_blocks = item_elements / 32;

  struct Item {
    std::size_t first_row, end_row, first_column, columns;
  };

  void flatten();

  template <class Function>
  void for_each_item(const Function& function) {
    const std::size_t items = bands_ * segments_;
    const bool narrowing_in_place = static_cast<const std::byte*>(to_.data) == from_.data &&
                                    (to_.format.bytes() != from_.format.bytes() ||
                                     (to_.rows > 1 && to_.row_stride != from_.row_stride));
    const std::size_t width =
        items <= 1 || narrowing_in_place ? 1 : static_cast<std::size_t>(context_.executor().width);
    const std::size_t tasks = (std::min)(items, width);
    parallel(context_, static_cast<int>(tasks), [&](int task) {
      const auto part = [&](std::size_t index) {
        return items / tasks * index + (std::min)(index, items % tasks);
      };
      const auto index = static_cast<std::size_t>(task);
      for (std::size_t i = part(index); i < part(index + 1); ++i) {
        const std::size_t row = i / segments_ * band_, column = i % segments_ * segment_;
        function(Item{row, (std::min)(row + band_, to_.rows), column,
                      (std::min)(segment_, to_.columns - column)});
      }
    });
  }

  // The kernel arguments for a row of an item, without target scales.
  ConvertArgs row_args(const Item& item, std::size_t row) const;

  // Adds the largest finite magnitudes of an item's rows to those in `amax`, one for each scaling
  // block.
  void collect_amax(const Item& item, std::size_t first, std::size_t end, float* amax) const;

  // Rows that share scaling blocks are converted together: first amax, if it determines the scale,
  // then the codes.
  void convert_item(const Item& item, AtomicMaximum* tensor_amax);

  Context& context_;
  ConstCodeSpan from_;
  CodeSpan to_;
  ConvertOptions options_;
  bool scaled_ = false;
  ScalingBlock block_{}, source_block_{};
  ScaleGrid grid_{}, source_grid_{};
  std::size_t segment_ = 0, segments_ = 0, band_ = 0, bands_ = 0;
  ConvertArgs args_{};
};

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/kernels/convert/impl/plan.ipp>
#endif
