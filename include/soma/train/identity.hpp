#pragma once
// Identity of a run: the settings that must be the same to resume a checkpoint with the same
// numbers, and the settings that all ranks of a run must share.

#include <soma/data/batch.hpp>
#include <soma/data/content_hash.hpp>
#include <soma/nn/task.hpp>
#include <soma/numeric/precision_text.hpp>
#include <soma/state/arithmetic.hpp>
#include <soma/train/options.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::train {

// As names and values, so that a message can name a difference. The length of the run is not part
// of the identity: a run may be resumed for more epochs or steps.
Record identity_of(const Context& context, const nn::Task& task, const data::BatchSource& batches,
                   const TrainerOptions& options, const optim::Schedule& schedule,
                   const optim::Optimizer& optimizer);

// A hash of names, types and numbers of the frozen parameters, which checkpoints leave out; the sum
// of those of the parameters, so that stages can add theirs. None: no parameter is frozen.
std::optional<std::uint64_t> frozen_values(Context& context, const Parameters& parameters);

// The rows of a source, without the settings of its batches, as text; "none" without a source.
std::string content_of(const data::BatchSource* rows);

// The settings that must be the same on all ranks, beside the identity in a checkpoint.
// `validation` is nullptr if there is no evaluation.
Record agreement_of(Record identity, const Parameters& parameters,
                    const data::BatchSource* validation, const TrainerOptions& options,
                    std::uint64_t steps, bool saves_parts);

// Error checkpoint.identity: names the first parameter that the checkpoint lacks or has in another
// form.
void check_parameters(const StateDict& saved, const Parameters& parameters);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/identity.ipp>
#endif
