#pragma once
// How a context comes to its operators of sparse training.

#include <soma/ops/registry.hpp>
#include <soma/ops/sparse/table.hpp>

namespace soma::detail {

// The registry gets copies, by which the operators are listed and tested; calls use the records of
// the table. Errors as OperatorRegistry::add.
inline void install_sparse(Context& context, const SparseTable& table) {
  if (context.sparse() != nullptr) return;
  for (const Operator* record : table.operators->all)
    context.operators().add(*record, Place{"soma/sparse.hpp", 0});
  context.set_sparse(&table);
}

}  // namespace soma::detail
