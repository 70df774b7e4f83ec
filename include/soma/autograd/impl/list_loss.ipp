#pragma once
// The functions of list_loss.hpp.

#include <soma/autograd/list_loss.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/data/labels.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/sparse/table.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE {

SOMA_INLINE Var list_loss(Tape& tape, const Var& logits, const data::LabelLists& labels,
                          const ListLossSetting& setting) {
  const SparseOperators& operators = *sparse_table(tape.context(), "list_loss").operators;
  return tape.apply(*operators.list_loss, setting,
                    {logits, tape.constant(labels.offsets), tape.constant(labels.ids)});
}

SOMA_INLINE Var full_softmax_loss(Tape& tape, const Var& h, const Var& weight, const Var& bias,
                                  const data::LabelLists& labels, LossReduction reduction) {
  const std::size_t rows = h.shape().rank() == 0 ? 0 : h.shape()[0];
  const CrossEntropySetting setting{
      .reduction = reduction, .denominator = static_cast<double>((std::max)(rows, std::size_t{1}))};
  return tape.apply(*tape.operators().head_loss, setting,
                    {h, weight, tape.constant(labels.ids), bias, tape.constant(labels.offsets)});
}

SOMA_INLINE Var sampled_loss(Tape& tape, const Var& h, const Var& weight, const Var& bias,
                             const ClassSet& set, const ListLossSetting& setting) {
  const Var positions = tape.constant(set.classes);
  const Var rows = embedding(tape, weight, positions), offsets = embedding(tape, bias, positions);
  const Var logits = linear(tape, h, rows, reshape(tape, offsets, Shape{set.classes.elements()}));
  return list_loss(tape, logits, set.labels, setting);
}

SOMA_INLINE Var sampled_cross_entropy(Tape& tape, const Var& h, const Var& weight, const Var& bias,
                                      const ClassSet& set, LossReduction reduction) {
  return sampled_loss(tape, h, weight, bias, set, {ListLoss::softmax, reduction});
}

SOMA_INLINE Var sampled_bce(Tape& tape, const Var& h, const Var& weight, const Var& bias,
                            const ClassSet& set, LossReduction reduction) {
  return sampled_loss(tape, h, weight, bias, set, {ListLoss::binary, reduction});
}

SOMA_INLINE Var sampled_cross_entropy(Tape& tape, const Var& h, const Var& weight, const Var& bias,
                                      const ClassSets& sets, LossReduction reduction) {
  const SparseOperators& operators =
      *sparse_table(tape.context(), "sampled_cross_entropy").operators;
  const Var logits =
      tape.apply(*operators.bag_logits, {}, {tape.constant(sets.classes), h, weight, bias});
  return tape.apply(*operators.bag_loss, BagLossSetting{reduction},
                    {logits, tape.constant(sets.labels.offsets), tape.constant(sets.labels.ids)});
}

}  // namespace SOMA_NAMESPACE
