#pragma once
// ClassIndex: hash tables that find classes whose weight rows point in the direction of a query, by
// densified winner-take-all hashes. Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/data/order.hpp>
#include <soma/kernels/sparse/args.hpp>
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

struct ClassIndexOptions {
  std::size_t tables = 32;
  std::size_t codes = 0;  // codes of a table, 1 to 5: 8^codes buckets. 0: class_index_codes()
  std::uint64_t seed = 0;
};
void fields(FieldVisitor& visitor, ClassIndexOptions& options);

// The most codes, from 1 to 5, that leave 64 classes or more in a bucket: a bucket that is too full
// returns too many far classes, and one that is too empty misses near classes.
constexpr std::size_t class_index_codes(std::size_t classes) {
  std::size_t codes = 1;
  while (codes < 5 && classes >> (3 * (codes + 1)) >= 64) ++codes;
  return codes;
}

// The bytes of the tables for `classes` classes.
constexpr std::size_t class_index_bytes(std::size_t classes, std::size_t tables,
                                        std::size_t codes) {
  return tables * (classes * 6 + ((std::size_t{1} << (3 * codes)) + 1) * 4);
}

// A bucket holds its classes in ascending order. Not thread-safe.
class ClassIndex {
 public:
  // The version of the hashes: with another version the same rows get other buckets.
  static constexpr std::uint64_t version = 1;

  // An index for weight rows [classes, columns]. Errors operator.value (no classes, 2^32 or more,
  // columns beyond 1024, tables or codes out of range), context.no_sparse.
  ClassIndex(Context& context, std::size_t classes, std::size_t columns,
             const ClassIndexOptions& options = {});

  std::size_t tables() const { return tables_; }
  std::size_t codes() const { return codes_; }
  std::size_t bucket_count() const;
  bool built() const { return built_; }

  // Hashes all rows of weight [classes, columns], fp32.
  void rebuild(const Tensor& weight);
  // Updates the tables when only these rows have changed since.
  void refresh(const Tensor& weight, std::span<const std::int64_t> rows);

  // Returns to the state before the first rebuild().
  void clear() { built_ = false; }

  // The buckets that hold these rows, int32 [rows, tables].
  Tensor buckets_of_rows(std::span<const std::int64_t> rows) const;
  // Restores the tables: these rows, int64 ascending, go into `buckets` (from buckets_of_rows()),
  // and all other rows are hashed from `weight`. Errors state.shape, state.dtype, operator.value.
  void restore(const Tensor& weight, const Tensor& rows, const Tensor& buckets);

  // The classes of a bucket.
  std::span<const std::uint32_t> bucket(std::size_t table, std::size_t bucket) const;
  // The buckets of queries [n, columns], fp32: entry t * n + i is for table t and query i.
  std::vector<std::uint16_t> buckets_of(const Tensor& queries) const;
  void find_buckets(const float* queries, std::size_t count,
                    std::vector<std::uint16_t>& found) const;

 private:
  void hash_all(const Tensor& weight);
  void hash(const float* rows, std::size_t first, std::size_t last, std::uint16_t* buckets,
            std::size_t stride) const;
  // A counting sort for each table.
  void sort_all();
  void sort(std::size_t table);

  Context& context_;
  std::size_t classes_, columns_, tables_, codes_;
  std::vector<std::int32_t> order_;
  std::vector<std::uint16_t> buckets_;  // [tables, classes]
  std::vector<std::uint32_t> ids_;      // [tables, classes]
  std::vector<std::uint32_t> starts_;   // [tables, buckets + 1]
  bool built_ = false;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/class_index.ipp>
#endif
