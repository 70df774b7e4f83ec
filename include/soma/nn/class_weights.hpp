#pragma once
// Cross entropy with class weights: the weighted mean
//     sum over rows of w[label] * loss / sum over rows of w[label],
// as in PyTorch's CrossEntropyLoss(weight=w). Large weights let rare classes count as much as
// frequent ones.

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/base/error.hpp>
#include <soma/base/record.hpp>
#include <soma/data/batch.hpp>
#include <soma/data/labels.hpp>
#include <soma/ops/settings.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

// The reduction of the cross entropy: the mean for a whole batch, the sum for a part of a batch.
CrossEntropySetting loss_of(const data::Batch& batch);
bool is_ignored(std::int64_t label);

// Weights with which each class adds the same amount to the loss: a class with n of the N rows gets
// N / (classes * n). A class without rows gets 0.
std::vector<float> balanced_class_weights(std::span<const std::uint64_t> rows);
// The same by the labels of all rows; ignored ones do not count. Error train.label: another number
// than those of classes.
std::vector<float> balanced_class_weights(std::span<const std::int64_t> labels,
                                          std::size_t classes);

// Error operator.value: a class without a weight, a weight that is negative or not finite, or all
// weights 0.
void check_class_weights(std::string_view operation, std::span<const float> weights,
                         std::size_t classes);

// Class weights change the results, so a run is resumed with the same weights only.
void describe_class_weights(Record& identity, std::span<const float> weights);

// The divisor of the mean loss of a batch: the sum of the weights of labels that are not ignored,
// or their number if there are no weights. A sum in double, in the order of the batch.
double counted_labels(const data::Batch& batch, std::span<const float> weights = {});

// The loss of a batch of checked class labels: the mean for a whole batch, the sum for a part. The
// sums run over the batch's shards, so that the bits do not depend on threads and ranks.
Var class_loss(Tape& tape, const Var& logits, const data::Batch& batch,
               std::span<const float> weights = {});

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/class_weights.ipp>
#endif
