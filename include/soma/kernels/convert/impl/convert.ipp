#pragma once
// How convert() checks its arguments, cuts a matrix into items of work and runs them.
//
// An item is a band of rows by a segment of columns. Only the scaling block of a whole tensor spans
// several items, so each item computes the scales and amax of its own scaling blocks. A tensor's
// single amax is a maximum, which does not depend on order.

#include <soma/kernels/convert/convert.hpp>

#include <soma/kernels/convert/atomic_maximum.hpp>
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
  static constexpr std::size_t most_blocks = item_elements / 16;

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
  // `marks_infinite`: infinity where a number is not finite.
  void collect_amax(const Item& item, std::size_t first, std::size_t end, float* amax,
                    bool marks_infinite) const;

  // Rows that share scaling blocks are converted together: first amax, if it determines the scale,
  // then the codes.
  void convert_item(const Item& item, AtomicMaximum* tensor_amax);

  Context& context_;
  ConstCodeSpan from_;
  CodeSpan to_;
  ConvertOptions options_;
  bool scaled_ = false, nan_scales_ = false;
  ScalingBlock block_{}, source_block_{};
  ScaleGrid grid_{}, source_grid_{};
  std::size_t segment_ = 0, segments_ = 0, band_ = 0, bands_ = 0;
  ConvertArgs args_{};
};

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string describe(const ConstCodeSpan& span) {
  return std::to_string(span.rows) + " x " + std::to_string(span.columns) + " " +
         to_string(span.format);
}

SOMA_INLINE void check_layout(const ConstCodeSpan& span, const char* argument) {
  validate(span.format, "convert");
  const std::size_t elements = checked_multiply(span.rows, span.columns, "convert");
  const std::size_t row =
      checked_multiply(span.columns, static_cast<std::size_t>(span.format.bytes()), "convert");
  if (elements == 0) return;
  if (span.data == nullptr)
    fail(error_id::bad_layout, "convert", argument, describe(span) + " at a null pointer",
         "memory");
  if (span.rows > 1 && span.row_stride < row)
    fail(error_id::bad_layout, "convert", argument,
         describe(span) + " with rows " + std::to_string(span.row_stride) + " bytes apart",
         "at least " + std::to_string(row));
  static_cast<void>(
      checked_add(checked_multiply(span.rows - 1, span.row_stride, "convert"), row, "convert"));
}

SOMA_INLINE std::size_t extent(const ConstCodeSpan& span) {
  return span.size() == 0 ? 0 : (span.rows - 1) * span.row_stride + span.row_bytes();
}

SOMA_INLINE bool overlaps(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  // Addresses as numbers: < on unrelated pointers is no order.
  const auto before = [](const std::byte* p, const std::byte* q) {
    return reinterpret_cast<std::uintptr_t>(p) < reinterpret_cast<std::uintptr_t>(q);
  };
  const auto *x = static_cast<const std::byte*>(a), *y = static_cast<const std::byte*>(b);
  return a_bytes != 0 && b_bytes != 0 && before(x, y + b_bytes) && before(y, x + a_bytes);
}

SOMA_INLINE void check_scale_count(const char* argument, std::size_t given, std::size_t wanted) {
  if (given != wanted)
    fail(error_id::scale_count, "convert", argument, std::to_string(given) + " numbers",
         std::to_string(wanted) + ", one for each granule");
}

SOMA_INLINE void check_convert(const ConstCodeSpan& from, const CodeSpan& to,
                               const ConvertOptions& options) {
  check_layout(from, "from");
  check_layout(to, "to");
  if (from.rows != to.rows || from.columns != to.columns)
    fail(error_id::size_mismatch, "convert", "to", describe(to),
         "the size of from, " + describe(from));
  check_random_bits("convert", "rounding.random_bits", options.rounding);
  validate(options.scaling, "convert");

  const bool scaled = options.scaling.policy != ScalePolicy::none;
  const Granularity granularity = scaled ? options.scaling.granularity : Granularity::tensor;
  const std::size_t blocks = scale_grid(granularity, to.rows, to.columns).size();
  check_scale_count("scales", options.scales.size(), scaled ? blocks : 0);
  if (!options.amax.empty()) check_scale_count("amax", options.amax.size(), blocks);
  if (!options.source_scales.empty())
    check_scale_count("source_scales", options.source_scales.size(),
                      scale_grid(options.source_granularity, from.rows, from.columns).size());
  if (options.scaling.policy == ScalePolicy::delayed)
    for (const float scale : options.scales)
      if (!(scale > 0 && scale <= (std::numeric_limits<float>::max)()))
        fail(error_id::bad_scaling, "convert", "scales", std::to_string(scale),
             "positive and finite");

  const std::size_t from_bytes = extent(from), to_bytes = extent(to);
  if (overlaps(from.data, from_bytes, to.data, to_bytes)) {
    const bool in_place = from.data == to.data && to.format.bytes() <= from.format.bytes() &&
                          (to.rows <= 1 || to.row_stride <= from.row_stride);
    if (!in_place)
      fail(error_id::forbidden_overlap, "convert", "to",
           describe(to) + ", which overlaps from (" + describe(from) + ")",
           "separate memory, or the same start with codes no wider and rows no farther apart");
  }
}

SOMA_INLINE ConvertPlan::ConvertPlan(Context& context, ConstCodeSpan from, CodeSpan to,
                                     const ConvertOptions& options)
    : context_(context), from_(from), to_(to), options_(options) {
  scaled_ = options.scaling.policy != ScalePolicy::none;
  nan_scales_ = scaled_ && has_nan_scales(options.scaling, to.format);
  if (options_.draw_row_stride == 0) options_.draw_row_stride = to.columns;
  const Granularity granularity = scaled_ ? options.scaling.granularity : Granularity::tensor;
  const bool source_scaled = !options.source_scales.empty();
  const bool whole = granularity == Granularity::tensor &&
                     (!source_scaled || options.source_granularity == Granularity::tensor);
  if (whole && from.contiguous() && to.contiguous() && options_.draw_row_stride == to.columns)
    flatten();
  block_ = scaling_block(granularity);
  grid_ = scale_grid(granularity, to_.rows, to_.columns);
  source_block_ = scaling_block(options.source_granularity);
  source_grid_ = scale_grid(options.source_granularity, from_.rows, from_.columns);

  // A row that shares one scale is one segment; otherwise segments are a whole number of
  // 128-column scaling blocks.
  segment_ =
      granularity == Granularity::row ? (std::max)(to_.columns, std::size_t{1}) : item_elements;
  segments_ = (to_.columns + segment_ - 1) / segment_;
  const std::size_t rows_that_fit = item_elements / (std::min)(segment_, to_.columns);
  const std::size_t together = (std::max)(std::size_t{1}, block_.rows);
  band_ = (std::max)(std::size_t{1}, rows_that_fit / together) * together;
  if (block_.rows == 128) band_ = 128;
  bands_ = (to_.rows + band_ - 1) / band_;

  args_.from_params = make_codec_params(from_.format);
  args_.to_params = make_codec_params(to_.format, options.rounding);
  args_.limit = decode(to_.format, to_.format.max_finite_code());
  args_.draw = options.draw;
  args_.stream =
      extent(to_) >= streaming_bytes && static_cast<const std::byte*>(to_.data) != from_.data;
}

SOMA_INLINE void ConvertPlan::run() {
  const FloatEnvironment environment;  // a tensor's scale is computed here, not in a task
  AtomicMaximum tensor_amax;
  const bool one_block = block_.rows == 0;
  const bool current = options_.scaling.policy == ScalePolicy::current;
  if (current && one_block) {
    AtomicMaximum marked;
    for_each_item([&](const Item& item) {
      float amax = 0;
      collect_amax(item, item.first_row, item.end_row, &amax, nan_scales_);
      marked.include(amax);
      if (options_.amax.empty()) return;
      amax = 0;
      collect_amax(item, item.first_row, item.end_row, &amax, false);
      tensor_amax.include(amax);
    });
    options_.scales[0] =
        scale_for(options_.scaling, to_.format, marked.value(), options_.tensor_scale);
  }
  const bool late_amax = one_block && !options_.amax.empty() && !current;
  for_each_item([&](const Item& item) { convert_item(item, late_amax ? &tensor_amax : nullptr); });
  if (one_block && !options_.amax.empty()) options_.amax[0] = tensor_amax.value();
}

SOMA_INLINE void ConvertPlan::flatten() {
  const std::size_t size = to_.size();
  from_.rows = to_.rows = 1;
  from_.columns = to_.columns = size;
  options_.draw_row_stride = size;
}

SOMA_INLINE ConvertArgs ConvertPlan::row_args(const Item& item, std::size_t row) const {
  ConvertArgs args = args_;
  args.from = from_.row(row) + item.first_column * static_cast<std::size_t>(from_.format.bytes());
  args.to = to_.row(row) + item.first_column * static_cast<std::size_t>(to_.format.bytes());
  args.count = item.columns;
  args.draw.index += row * options_.draw_row_stride + item.first_column;
  args.target_group = block_.columns == 0 ? item.columns : block_.columns;
  if (!options_.source_scales.empty()) {
    const ScalingBlock g = source_block_;
    const std::size_t grid_row = g.rows == 0 ? 0 : row / g.rows;
    const std::size_t grid_column = g.columns == 0 ? 0 : item.first_column / g.columns;
    args.source_scales =
        options_.source_scales.data() + grid_row * source_grid_.columns + grid_column;
    args.source_group = g.columns == 0 ? item.columns : g.columns;
  }
  return args;
}

SOMA_INLINE void ConvertPlan::collect_amax(const Item& item, std::size_t first, std::size_t end,
                                           float* amax, bool marks_infinite) const {
  for (std::size_t row = first; row < end; ++row) {
    ConvertArgs args = row_args(item, row);
    args.to = nullptr;
    args.amax = amax;
    args.marks_infinite = marks_infinite;
    context_.kernels().convert(args);
  }
}

SOMA_INLINE void ConvertPlan::convert_item(const Item& item, AtomicMaximum* tensor_amax) {
  std::array<float, most_blocks> amax, inverse;
  const std::size_t together = block_.rows == 0 ? item.end_row - item.first_row : block_.rows;
  const std::size_t group = block_.columns == 0 ? item.columns : block_.columns;
  const std::size_t blocks = (item.columns + group - 1) / group;
  const bool one_block = block_.rows == 0;
  const bool current = options_.scaling.policy == ScalePolicy::current && !one_block;
  const bool wants_amax = one_block ? tensor_amax != nullptr : !options_.amax.empty();

  for (std::size_t first = item.first_row; first < item.end_row; first += together) {
    const std::size_t end = (std::min)(first + together, item.end_row);
    const std::size_t grid_row = one_block ? 0 : first / block_.rows;
    const std::size_t at =
        grid_row * grid_.columns + (block_.columns == 0 ? 0 : item.first_column / block_.columns);
    std::fill_n(amax.begin(), blocks, 0.0f);
    if (current) {
      collect_amax(item, first, end, amax.data(), nan_scales_);
      bool finite = true;
      for (std::size_t g = 0; g < blocks; ++g) {
        options_.scales[at + g] =
            scale_for(options_.scaling, to_.format, amax[g], options_.tensor_scale);
        finite = finite && amax[g] <= (std::numeric_limits<float>::max)();
      }
      if (!finite && wants_amax) {
        std::fill_n(amax.begin(), blocks, 0.0f);
        collect_amax(item, first, end, amax.data(), false);
      }
    }
    if (scaled_)
      for (std::size_t g = 0; g < blocks; ++g)
        inverse[g] = 1.0f / (options_.scales[at + g] * options_.tensor_scale);
    for (std::size_t row = first; row < end; ++row) {
      ConvertArgs args = row_args(item, row);
      if (scaled_) args.inverse_scales = inverse.data();
      if (wants_amax && !current) args.amax = amax.data();
      context_.kernels().convert(args);
    }
    if (wants_amax && one_block) tensor_amax->include(amax[0]);
    if (wants_amax && !one_block) std::copy_n(amax.begin(), blocks, options_.amax.data() + at);
  }
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE void convert(Context& context, const ConstCodeSpan& from, const CodeSpan& to,
                         const ConvertOptions& options) {
  detail::check_convert(from, to, options);
  if (to.size() == 0) {
    for (float& amax : options.amax) amax = 0;
    if (options.scaling.policy == ScalePolicy::current)
      for (float& scale : options.scales)
        scale = scale_for(options.scaling, to.format, 0, options.tensor_scale);
    return;
  }
  detail::ConvertPlan(context, from, to, options).run();
}

}  // namespace SOMA_NAMESPACE
