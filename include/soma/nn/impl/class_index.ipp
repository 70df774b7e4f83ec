#pragma once
// The functions of class_index.hpp.

#include <soma/nn/class_index.hpp>

#include <soma/data/order.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void fields(FieldVisitor& visitor, ClassIndexOptions& options) {
  // The same error where the options are a member of a sampler's.
  constexpr ErrorId id = error_id::operator_value;
  visitor.option("tables", options.tables, {.least = 1, .id = id});
  visitor.option("codes", options.codes, {.least = 0, .most = 5, .id = id});
  visitor.option("seed", options.seed);
}

SOMA_INLINE ClassIndex::ClassIndex(Context& context, std::size_t classes, std::size_t columns,
                                   const ClassIndexOptions& options)
    : context_(context),
      classes_(classes),
      columns_(columns),
      tables_(options.tables),
      codes_(options.codes != 0 ? options.codes : class_index_codes(classes)) {
  static_cast<void>(sparse_table(context, "ClassIndex"));
  check_ranges("ClassIndex", options);
  const auto check = [](std::string_view name, std::size_t value, std::size_t least,
                        std::size_t most) {
    if (value < least || value > most)
      fail(error_id::operator_value, "ClassIndex", name, std::to_string(value),
           std::to_string(least) + " to " + std::to_string(most));
  };
  check("classes", classes, 1, 0xFFFFFFFFu);
  check("columns", columns, 1, dwta_most_columns);
  check("tables", tables_, 1, dwta_most_codes / codes_);
  // Permutations of the columns, one behind the other, cut into bins.
  const std::size_t places = tables_ * codes_ * dwta_bin;
  for (std::uint64_t round = 0; order_.size() < places; ++round)
    for (const std::uint32_t column : data::shuffled_order(columns, options.seed, round))
      if (order_.size() < places) order_.push_back(static_cast<std::int32_t>(column));
  buckets_.resize(tables_ * classes_);
  ids_.resize(tables_ * classes_);
  starts_.resize(tables_ * (bucket_count() + 1));
}

SOMA_INLINE std::size_t ClassIndex::bucket_count() const { return std::size_t{1} << (3 * codes_); }

SOMA_INLINE void ClassIndex::rebuild(const Tensor& weight) {
  hash_all(weight);
  sort_all();
}

SOMA_INLINE void ClassIndex::refresh(const Tensor& weight, std::span<const std::int64_t> rows) {
  constexpr std::size_t block = 16;  // rows that are hashed together
  const std::size_t blocks = (rows.size() + block - 1) / block;
  soma::detail::for_ranges(
      context_, blocks, block * tables_ * codes_, [&](std::size_t begin, std::size_t end) {
        std::vector<float> copies(block * columns_);
        std::vector<std::uint16_t> found(tables_ * block);
        for (std::size_t first = begin * block; first < (std::min)(end * block, rows.size());
             first += block) {
          const std::size_t count = (std::min)(block, rows.size() - first);
          for (std::size_t i = 0; i < count; ++i)
            std::copy_n(weight.data<float>() + static_cast<std::size_t>(rows[first + i]) * columns_,
                        columns_, copies.data() + i * columns_);
          hash(copies.data(), 0, count, found.data(), block);
          for (std::size_t table = 0; table < tables_; ++table)
            for (std::size_t i = 0; i < count; ++i)
              buckets_[table * classes_ + static_cast<std::size_t>(rows[first + i])] =
                  found[table * block + i];
        }
      });
  sort_all();
}

SOMA_INLINE Tensor ClassIndex::buckets_of_rows(std::span<const std::int64_t> rows) const {
  const Tensor result = Tensor::empty(context_, Shape{rows.size(), tables_}, DType::int32);
  auto* to = result.mutable_data<std::int32_t>();
  for (const std::int64_t row : rows)
    for (std::size_t table = 0; table < tables_; ++table)
      *to++ = buckets_[table * classes_ + static_cast<std::size_t>(row)];
  return result;
}

SOMA_INLINE void ClassIndex::restore(const Tensor& weight, const Tensor& rows,
                                     const Tensor& buckets) {
  constexpr std::string_view operation = "ClassIndex::restore";
  if (rows.rank() != 1 || buckets.shape() != Shape{rows.elements(), tables_})
    fail(error_id::state_shape, operation, "rows and buckets",
         rows.describe() + " and " + buckets.describe(),
         "numbers, and for each " + std::to_string(tables_) + " buckets");
  if (rows.dtype() != DType::int64 || buckets.dtype() != DType::int32)
    fail(error_id::state_dtype, operation, "rows and buckets",
         rows.describe() + " and " + buckets.describe(), "int64 and int32");
  const auto check = [&](std::string_view name, std::int64_t value, std::int64_t least,
                         std::size_t most) {
    if (value < least || static_cast<std::uint64_t>(value) >= most)
      fail(error_id::operator_value, operation, name, std::to_string(value),
           std::to_string(least) + " to " + std::to_string(most) + " - 1");
  };
  std::int64_t least = 0;
  for (const std::int64_t row : rows.span<std::int64_t>()) {
    check("rows", row, least, classes_);
    least = row + 1;
  }
  for (const std::int32_t bucket : buckets.span<std::int32_t>())
    check("buckets", bucket, 0, bucket_count());
  hash_all(weight);
  const std::int32_t* from = buckets.data<std::int32_t>();
  for (const std::int64_t row : rows.span<std::int64_t>())
    for (std::size_t table = 0; table < tables_; ++table)
      buckets_[table * classes_ + static_cast<std::size_t>(row)] =
          static_cast<std::uint16_t>(*from++);
  sort_all();
}

SOMA_INLINE std::span<const std::uint32_t> ClassIndex::bucket(std::size_t table,
                                                              std::size_t bucket) const {
  const std::uint32_t* start = starts_.data() + table * (bucket_count() + 1) + bucket;
  return std::span(ids_).subspan(table * classes_ + start[0], start[1] - start[0]);
}

SOMA_INLINE std::vector<std::uint16_t> ClassIndex::buckets_of(const Tensor& queries) const {
  std::vector<std::uint16_t> found;
  find_buckets(queries.data<float>(), queries.size(0), found);
  return found;
}

SOMA_INLINE void ClassIndex::find_buckets(const float* queries, std::size_t count,
                                          std::vector<std::uint16_t>& found) const {
  found.resize(tables_ * count);
  hash(queries, 0, count, found.data(), count);
}

SOMA_INLINE void ClassIndex::hash_all(const Tensor& weight) {
  soma::detail::for_ranges(context_, classes_, tables_ * codes_,
                           [&](std::size_t begin, std::size_t end) {
                             hash(weight.data<float>(), begin, end, buckets_.data(), classes_);
                           });
}

SOMA_INLINE void ClassIndex::hash(const float* rows, std::size_t first, std::size_t last,
                                  std::uint16_t* buckets, std::size_t stride) const {
  sparse_table(context_, "ClassIndex")
      .kernels->dwta({.first = first,
                      .last = last,
                      .columns = columns_,
                      .x = rows,
                      .stride = columns_,
                      .order = order_.data(),
                      .tables = tables_,
                      .codes = codes_,
                      .buckets = buckets,
                      .bucket_stride = stride});
}

SOMA_INLINE void ClassIndex::sort_all() {
  soma::detail::for_ranges(context_, tables_, classes_ * 4,
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t table = begin; table < end; ++table) sort(table);
                           });
  built_ = true;
}

SOMA_INLINE void ClassIndex::sort(std::size_t table) {
  const std::uint16_t* bucket = buckets_.data() + table * classes_;
  std::uint32_t* start = starts_.data() + table * (bucket_count() + 1);
  std::fill(start, start + bucket_count() + 1, 0u);
  for (std::size_t i = 0; i < classes_; ++i) ++start[bucket[i] + 1];
  for (std::size_t i = 0; i < bucket_count(); ++i) start[i + 1] += start[i];
  std::vector<std::uint32_t> next(start, start + bucket_count());
  std::uint32_t* ids = ids_.data() + table * classes_;
  for (std::size_t i = 0; i < classes_; ++i) ids[next[bucket[i]]++] = static_cast<std::uint32_t>(i);
}

}  // namespace SOMA_NAMESPACE::nn
