#pragma once
// The sparse part of soma::dispatch: kernels and operators for a context's target.

#include <soma/ops/sparse/table.hpp>

#include <string_view>

namespace SOMA_NAMESPACE::dispatch {

// The sparse kernels that are compiled for the target with that name (Context::target().name).
const SparseTable& sparse_table(std::string_view target);

}  // namespace SOMA_NAMESPACE::dispatch
