#pragma once
// The operators of sparse training with their programs, for add_sparse().

#include <soma/ops/sparse/all.hpp>
#include <soma/programs/sparse/embedding_bag.hpp>
#include <soma/programs/sparse/row_steps.hpp>

#include <array>
#include <cstddef>

namespace SOMA_NAMESPACE::programs::detail {

inline constexpr Program sparse_programs[] = {
    {.run = &programs::embedding_bag, .host_inputs = 2},
    {.run = &programs::embedding_bag_backward, .host_inputs = 6},
    {.run = &programs::row_sgd_step, .host_inputs = 4},
    {.run = &programs::row_adagrad_step, .host_inputs = 4},
    {.run = &programs::row_adam_step, .host_inputs = 4}};

constexpr Operator with_program(Operator record, std::size_t index) {
  record.program = &sparse_programs[index];
  return record;
}

inline constexpr std::array sparse_records = {
    with_program(ops::embedding_bag, 0), with_program(ops::embedding_bag_backward, 1),
    with_program(ops::row_sgd_step, 2), with_program(ops::row_adagrad_step, 3),
    with_program(ops::row_adam_step, 4),
    // These operators run on the host: they work on lists of labels, on a set of classes for each
    // sample, or on rows that have made different numbers of steps.
    ops::list_loss, ops::row_lazy_adam_step, ops::bag_logits, ops::bag_loss};

inline constexpr std::array<const Operator*, sparse_records.size()> sparse_list = {
    &sparse_records[0], &sparse_records[1], &sparse_records[2],
    &sparse_records[3], &sparse_records[4], &sparse_records[5],
    &sparse_records[6], &sparse_records[7], &sparse_records[8]};

inline constexpr SparseOperators sparse_operators =
    soma::detail::sparse_operators_of(sparse_records, sparse_list);

}  // namespace SOMA_NAMESPACE::programs::detail
