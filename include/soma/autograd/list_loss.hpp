#pragma once
// Losses over very many classes with lists of labels: exact losses, computed for a panel of classes
// at a time, and sampled losses over a chosen set of classes. Needs add_sparse(context)
// (soma/sparse.hpp).

#include <soma/autograd/functions.hpp>
#include <soma/data/labels.hpp>
#include <soma/ops/sparse/table.hpp>

namespace SOMA_NAMESPACE {

// The loss of logits [B, S]; the lists name columns of the logits; see ListLoss. Errors
// operator.value (a label that is no column, or lists that do not ascend), tensor.shape,
// tensor.dtype.
Var list_loss(Tape& tape, const Var& logits, const data::LabelLists& labels,
              const ListLossSetting& setting = {});

// Softmax cross entropy over all rows of weight [C, D] and bias [C], given h [B, D]: head_loss with
// lists of labels, whose mean is over all rows. Memory: logits of 4096 classes, and gradients of
// all weights. Needs no add_sparse().
Var full_softmax_loss(Tape& tape, const Var& h, const Var& weight, const Var& bias,
                      const data::LabelLists& labels,
                      LossReduction reduction = LossReduction::mean);

// A subset of the classes: their ids, ascending, and lists of labels as positions in the subset.
struct ClassSet {
  Tensor classes;  // int64 [S]
  data::LabelLists labels;
};

// The loss over the classes of a set alone: softmax is normalised over the set, binary cross
// entropy is summed over the set. With the set of all classes it is the exact loss. Only rows of
// the set get gradients. weight [C, D], bias [C, 1].
Var sampled_loss(Tape& tape, const Var& h, const Var& weight, const Var& bias, const ClassSet& set,
                 const ListLossSetting& setting = {});
Var sampled_cross_entropy(Tape& tape, const Var& h, const Var& weight, const Var& bias,
                          const ClassSet& set, LossReduction reduction = LossReduction::mean);
Var sampled_bce(Tape& tape, const Var& h, const Var& weight, const Var& bias, const ClassSet& set,
                LossReduction reduction = LossReduction::mean);

// A set of classes for each sample: int32 ids, ascending within a sample, each once; and the labels
// as positions in the set.
struct ClassSets {
  Ragged classes;
  data::LabelLists labels;
};

// The same loss where row b of h has set number b. A step touches the rows in the union of the
// sets, and its products are of vectors by vectors: a set that the batch shares costs less for the
// same number of logits. With all classes in each set it is the exact loss. Errors operator.value
// (an id that is no class, a label that is no position), tensor.shape, tensor.dtype.
Var sampled_cross_entropy(Tape& tape, const Var& h, const Var& weight, const Var& bias,
                          const ClassSets& sets, LossReduction reduction = LossReduction::mean);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/list_loss.ipp>
#endif
