// Include and go: add_sparse() with the kernels of this unit's flags, and the programs.

#pragma once

#include <soma/kernels/sparse/sparse-inl.hpp>
#include <soma/ops/sparse/install.hpp>
#include <soma/programs/sparse/all.hpp>

#include <hwy/highway.h>

#include <string_view>

namespace SOMA_NAMESPACE {
inline namespace HWY_CONCAT(static_, HWY_NAMESPACE) {

  [[maybe_unused]] static inline const SparseTable& static_sparse_table(std::string_view) {
    static constexpr SparseTable table{&HWY_NAMESPACE::sparse_kernels,
                                       &programs::detail::sparse_operators, &static_sparse_table};
    return table;
  }

  // Gives a context the kernels and operators of sparse training, and lists these operators in its
  // registry. A second call does nothing.
  [[maybe_unused]] static inline void add_sparse(Context & context) {
    detail::install_sparse(context, static_sparse_table(context.target().name));
  }

}  // namespace )
}  // namespace SOMA_NAMESPACE
