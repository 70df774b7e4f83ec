// soma::dispatch: the kernels of sparse training for every target, and its operators with their
// programs.

#include <soma/dispatch/family.hpp>
#include <soma/dispatch/sparse.hpp>
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "soma/dispatch/sparse.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/kernels/sparse/sparse-inl.hpp>

#ifndef SOMA_DISPATCH_SPARSE_FAMILY
#define SOMA_DISPATCH_SPARSE_FAMILY
namespace SOMA_NAMESPACE::dispatch {
template <std::int64_t target>
struct SparseFamily;
}
#endif

namespace SOMA_NAMESPACE::dispatch {
template <>
struct SparseFamily<HWY_TARGET> {
  static void fill(SparseTable& table) { table.kernels = &HWY_NAMESPACE::sparse_kernels; }
};
}  // namespace SOMA_NAMESPACE::dispatch

#if HWY_ONCE

#include <soma/programs/sparse/all.hpp>

#include <array>

namespace SOMA_NAMESPACE::dispatch {

// A table for each bit that a target may have. Made at the first call and never changed.
struct SparseTables {
  std::array<SparseTable, 64> tables{};

  SparseTables() {
    for (std::size_t bit = 0; bit < 63; ++bit) {
      tables[bit].operators = &programs::detail::sparse_operators;
      tables[bit].of_target = &sparse_table;
      fill_for<HWY_TARGETS, SparseFamily>(std::int64_t{1} << bit, tables[bit]);
    }
  }
};

}  // namespace SOMA_NAMESPACE::dispatch

const soma::SparseTable& soma::dispatch::sparse_table(std::string_view target) {
  static const SparseTables all;
  for (std::size_t bit = 0; bit < 63; ++bit)
    if (all.tables[bit].kernels != nullptr && target == hwy::TargetName(std::int64_t{1} << bit))
      return all.tables[bit];
  fail(error_id::unknown_target, "add_sparse", "target", std::string(target),
       "one that soma::dispatch was compiled for");
}

#endif
