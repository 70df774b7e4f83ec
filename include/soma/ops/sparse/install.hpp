#pragma once
// Installs the operators of sparse training in a context.

#include <soma/ops/registry.hpp>
#include <soma/ops/sparse/table.hpp>

namespace SOMA_NAMESPACE::detail {

// The registry gets copies, for listing and testing the operators; calls use the records of the
// table. Errors as of OperatorRegistry::add.
inline void install_sparse(Context& context, const SparseTable& table) {
  if (context.sparse() != nullptr) return;
  for (const Operator* record : table.operators->all)
    context.operators().add(*record, Place{"soma/sparse.hpp", 0});
  context.set_sparse(&table);
}

}  // namespace SOMA_NAMESPACE::detail
