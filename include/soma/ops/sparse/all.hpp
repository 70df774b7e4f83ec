#pragma once
// The operators of sparse training. Only units that call add_sparse() include this header.

#include <soma/ops/sparse/bag_logits.hpp>
#include <soma/ops/sparse/bag_loss.hpp>
#include <soma/ops/sparse/embedding_bag.hpp>
#include <soma/ops/sparse/list_loss.hpp>
#include <soma/ops/sparse/row_steps.hpp>

#include <array>

namespace SOMA_NAMESPACE::detail {

// `list` provides the records, with or without programs of the accelerator.
template <class List>
constexpr SparseOperators sparse_operators_of(const List& list,
                                              std::span<const Operator* const> all) {
  return {.embedding_bag = &list[0],
          .embedding_bag_backward = &list[1],
          .row_sgd_step = &list[2],
          .row_adagrad_step = &list[3],
          .row_adam_step = &list[4],
          .row_lazy_adam_step = &list[6],
          .list_loss = &list[5],
          .bag_logits = &list[7],
          .bag_loss = &list[8],
          .all = all};
}

}  // namespace SOMA_NAMESPACE::detail
