#pragma once
// evaluate() on several ranks: they take turns with the batches.

#include <soma/parallel/collectives.hpp>
#include <soma/train/evaluate.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::train {

// evaluate() on several ranks, with the same bits on every rank: rank r computes batches r, r +
// ranks, ... of a source that all ranks read. Then the ranks exchange losses and scores, and count
// them in the order of the batches. Further errors: those of Communicator.
Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                    PrecisionState* precision, Communicator& communicator);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/evaluate_ranks.ipp>
#endif
