// Densified winner-take-all hashes of rows (arXiv 1903.03129 section 3.2; Chen and Shrivastava,
// "Densified Winner Take All", 2018): 16 rows at a time, so that a code of all of them is eight
// comparisons of vectors.

#if defined(SOMA_KERNELS_SPARSE_DWTA_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SPARSE_DWTA_INL_HPP
#undef SOMA_KERNELS_SPARSE_DWTA_INL_HPP
#else
#define SOMA_KERNELS_SPARSE_DWTA_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/kernels/sparse/args.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// 16 rows: their numbers column by column, and their codes.
struct DwtaBlock {
  alignas(64) float columns[dwta_most_columns][sum_lanes];
  alignas(64) float codes[dwta_most_codes][sum_lanes];  // dwta_bin: all eight numbers are zero

  void load(const DwtaArgs& args, std::size_t first, std::size_t rows) {
    for (std::size_t row = 0; row < sum_lanes; ++row)
      for (std::size_t c = 0; c < args.columns; ++c)
        columns[c][row] = row < rows ? args.x[(first + row) * args.stride + c] : 0.0f;
  }
  void hash(const DwtaArgs& args) {
    const Floats d;
    const std::size_t count = args.tables * args.codes;
    for (std::size_t code = 0; code < count; ++code) {
      const std::int32_t* bin = args.order + code * dwta_bin;
      for (std::size_t lane = 0; lane < sum_lanes; lane += float_lanes) {
        auto best = hn::Load(d, columns[bin[0]] + lane);
        auto index = hn::Zero(d), most = hn::Abs(best);
        for (std::size_t i = 1; i < dwta_bin; ++i) {
          const auto value = hn::Load(d, columns[bin[i]] + lane);
          const auto wins = hn::Gt(value, best);
          best = hn::IfThenElse(wins, value, best);
          index = hn::IfThenElse(wins, hn::Set(d, static_cast<float>(i)), index);
          most = hn::Max(most, hn::Abs(value));
        }
        const auto empty = hn::Eq(most, hn::Zero(d));
        hn::Store(hn::IfThenElse(empty, hn::Set(d, static_cast<float>(dwta_bin)), index), d,
                  codes[code] + lane);
      }
    }
  }
  // A code whose numbers are all zero takes the next code whose numbers are not, around the end.
  std::size_t code_of(std::size_t code, std::size_t row, std::size_t count) const {
    for (std::size_t probe = 0; probe < count; ++probe) {
      const auto found = static_cast<std::size_t>(codes[(code + probe) % count][row]);
      if (found != dwta_bin) return found;
    }
    return 0;
  }
};

}  // namespace

static inline void dwta_entry(const DwtaArgs& args) noexcept {
  DwtaBlock block;
  const std::size_t count = args.tables * args.codes;
  for (std::size_t first = args.first; first < args.last; first += sum_lanes) {
    const std::size_t rows = (std::min)(args.last - first, sum_lanes);
    block.load(args, first, rows);
    block.hash(args);
    for (std::size_t table = 0; table < args.tables; ++table)
      for (std::size_t row = 0; row < rows; ++row) {
        std::size_t bucket = 0;
        for (std::size_t k = 0; k < args.codes; ++k)
          bucket = bucket * dwta_bin + block.code_of(table * args.codes + k, row, count);
        args.buckets[table * args.bucket_stride + first + row] = static_cast<std::uint16_t>(bucket);
      }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
