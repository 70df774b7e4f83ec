// The embedding entries of the kernel table: rows by ids, and sums of rows.

#if defined(SOMA_KERNELS_EMBEDDING_EMBEDDING_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_EMBEDDING_EMBEDDING_INL_HPP
#undef SOMA_KERNELS_EMBEDDING_EMBEDDING_INL_HPP
#else
#define SOMA_KERNELS_EMBEDDING_EMBEDDING_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/embedding/args.hpp>
#include <soma/kernels/reduce/column_sums-inl.hpp>
#include <soma/kernels/rows/run_io-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {

static inline std::size_t read_id(const GatherArgs& args, std::size_t row) {
  if (args.id_dtype == DType::int32) {
    std::int32_t id;
    std::memcpy(&id, static_cast<const std::byte*>(args.ids) + row * sizeof id, sizeof id);
    return static_cast<std::size_t>(id);
  }
  std::int64_t id;
  std::memcpy(&id, static_cast<const std::byte*>(args.ids) + row * sizeof id, sizeof id);
  return static_cast<std::size_t>(id);
}

// Rows that keep their type are copied: any rounding keeps a representable value, including NaN
// payloads.
static inline void gather_copies(const GatherArgs& args) {
  const std::size_t width = size_of(args.table.dtype);
  const auto* table = static_cast<const std::byte*>(args.table.data);
  auto* y = static_cast<std::byte*>(args.y.data);
  for (std::size_t row = 0; row < args.rows; ++row)
    std::memcpy(y + row * args.y.row_stride * width,
                table + read_id(args, row) * args.table.row_stride * width, args.columns * width);
}

static inline void gather_converted(const GatherArgs& args) {
  const RunSource source = run_source(args.table);
  const MatrixTarget& y = args.y;
  RunTarget target = run_target(y.data, y.dtype, y.rounding, y.draw);
  const std::size_t row_bytes = y.row_stride * size_of(y.dtype);
  RunBuffer buffer;
  ConvertBuffers scratch;
  for (std::size_t row = 0; row < args.rows; ++row) {
    target.data = static_cast<std::byte*>(y.data) + row * row_bytes;
    target.draw.index =
        y.draw.index + (y.row_indices != nullptr ? y.row_indices[row] : row * y.draw_row_stride);
    const std::size_t id = read_id(args, row);
    for (std::size_t first = 0; first < args.columns; first += run_chunk) {
      const std::size_t count = (std::min)(run_chunk, args.columns - first);
      const float* values = load_run(source, id, first, count, buffer.values, scratch);
      store_run(target, first, count, values, scratch);
    }
  }
}

static inline void gather(const GatherArgs& args) noexcept {
  if (args.rows == 0 || args.columns == 0) return;
  const MatrixOperand& table = args.table;
  if (table.dtype == args.y.dtype && table.column_stride == 1 && table.scale == 1)
    gather_copies(args);
  else
    gather_converted(args);
}

static inline void gather_sum(const GatherSumArgs& args) noexcept {
  sum_rows_of({.rows = args.count,
               .columns = args.columns,
               .x = args.x,
               .list = args.list,
               .segments = args.segments,
               .accumulate = args.accumulate,
               .out = args.out});
}

[[maybe_unused]] static constexpr EmbeddingKernels embedding_kernels{
    .gather = gather,
    .gather_sum = gather_sum,
};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
