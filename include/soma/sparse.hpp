#pragma once
// Sparse training: embedding bags, and optimizers whose steps cost as much as the touched rows.
// Opt-in beside soma.hpp, with kernels of its own; with soma::dispatch they come from the compiled
// library.
//
//   auto context = soma::make_context();
//   soma::add_sparse(context);
//   ...
//   soma::Var h = soma::embedding_bag(tape, table, ids, soma::BagMode::mean);
//   soma::optim::RowAdagrad optimizer(context, parameters);
//
// docs/sparse_training.md describes its uses.

#include <soma/autograd/embedding_bag.hpp>
#include <soma/autograd/list_loss.hpp>
#include <soma/ops/sparse/install.hpp>
#include <soma/optim/lazy_adamw.hpp>
#include <soma/optim/panel_solver.hpp>
#include <soma/optim/row_optimizers.hpp>
#include <soma/soma.hpp>

#ifdef SOMA_DISPATCH
#include <soma/dispatch/sparse.hpp>

namespace SOMA_NAMESPACE {

// Gives a context the kernels and operators of sparse training, and lists these operators in its
// registry. A second call does nothing.
inline void add_sparse(Context& context) {
  detail::install_sparse(context, dispatch::sparse_table(context.target().name));
}

}  // namespace SOMA_NAMESPACE
#else
#include <soma/static_sparse-inl.hpp>
#endif
