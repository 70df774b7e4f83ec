// The optimizer that the command line names.
#pragma once

#include "training/run_options.hpp"

#include <soma/autograd/parameter.hpp>
#include <soma/numeric/precision.hpp>
#include <soma/optim/optimizer.hpp>

#include <memory>
#include <string_view>

// Error UsageError: an option that the optimizer does not have, named.
void check_optimizer(const OptimizerOptions& options);
// Error UsageError: any option of an optimizer, which does nothing `with` another option.
void check_no_optimizer_option(const OptimizerOptions& options, std::string_view with);

// Weights and moments as the precision stores them; weight decay as the trainer's own AdamW has it.
// Errors UsageError: states that the precision stores in another format than the optimizer; those
// of the optimizer.
std::unique_ptr<soma::optim::Optimizer> make_optimizer(soma::Context& context,
                                                       const soma::Parameters& parameters,
                                                       const RunOptions& options,
                                                       const soma::Precision& precision);
