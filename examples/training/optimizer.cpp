#include "training/optimizer.hpp"

#include "training/arguments.hpp"

#include <soma/optim/adadelta.hpp>
#include <soma/optim/adafactor.hpp>
#include <soma/optim/adam.hpp>
#include <soma/optim/adamw.hpp>
#include <soma/optim/lamb.hpp>
#include <soma/optim/radam.hpp>
#include <soma/optim/rmsprop.hpp>
#include <soma/optim/sgd.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

struct Reader {
  std::string_view option;
  bool given;
  std::vector<std::string_view> optimizers;  // that have it
};

std::vector<Reader> readers(const OptimizerOptions& o) {
  return {{"--beta1", o.beta1.has_value(), {"adamw", "adam", "radam", "lamb"}},
          {"--beta2", o.beta2.has_value(), {"adamw", "adam", "radam", "lamb"}},
          {"--epsilon",
           o.epsilon.has_value(),
           {"adamw", "adam", "radam", "lamb", "rmsprop", "adagrad", "adadelta"}},
          {"--momentum", o.momentum.has_value(), {"sgd", "rmsprop"}},
          {"--dampening", o.dampening.has_value(), {"sgd"}},
          {"--nesterov", o.nesterov, {"sgd"}},
          {"--alpha", o.alpha.has_value(), {"rmsprop"}},
          {"--rho", o.rho.has_value(), {"adadelta"}},
          {"--rate-decay", o.rate_decay.has_value(), {"adagrad"}},
          {"--initial-square", o.initial_square.has_value(), {"adagrad"}},
          {"--beta2-decay", o.beta2_decay.has_value(), {"adafactor"}},
          {"--floor", o.floor.has_value(), {"adafactor"}},
          {"--least-scale", o.least_scale.has_value(), {"adafactor"}},
          {"--update-clip", o.update_clip.has_value(), {"adafactor"}}};
}

// Leaves the library's default where nothing was given.
template <class T>
void set(T& value, const std::optional<double>& given) {
  if (given) value = static_cast<T>(*given);
}

template <class Options>
void set_betas(Options& result, const OptimizerOptions& options) {
  set(result.beta1, options.beta1);
  set(result.beta2, options.beta2);
  set(result.epsilon, options.epsilon);
}

// Weight decay belongs to the step of these; the others add it to the gradient, where the usual
// value would be a surprise.
bool decays_apart(std::string_view optimizer) {
  return optimizer == "adamw" || optimizer == "lamb" || optimizer == "adafactor";
}

}  // namespace

void check_optimizer(const OptimizerOptions& options) {
  for (const Reader& reader : readers(options))
    if (reader.given && std::find(reader.optimizers.begin(), reader.optimizers.end(),
                                  options.name) == reader.optimizers.end())
      throw UsageError(std::string(reader.option) + " does nothing with --optimizer " +
                       options.name);
  if (options.name != "sgd" || options.momentum.value_or(0) != 0) return;
  for (const auto& [option, given] :
       {std::pair("--nesterov", options.nesterov), {"--dampening", options.dampening.has_value()}})
    if (given) throw UsageError(std::string(option) + " does nothing without --momentum");
}

void check_no_optimizer_option(const OptimizerOptions& options, std::string_view with) {
  for (const Reader& reader : readers(options))
    if (reader.given)
      throw UsageError(std::string(reader.option).append(" does nothing with ").append(with));
}

std::unique_ptr<soma::optim::Optimizer> make_optimizer(soma::Context& context,
                                                       const soma::Parameters& parameters,
                                                       const RunOptions& options,
                                                       const soma::Precision& precision) {
  using namespace soma::optim;
  const OptimizerOptions& given = options.optimizer;
  const std::string& name = given.name;
  const auto decay =
      static_cast<float>(options.weight_decay.value_or(decays_apart(name) ? 0.01 : 0));
  const std::vector<Group> groups =
      options.decay_all ? std::vector<Group>{{.parameters = parameters, .weight_decay = decay}}
                        : decay_groups(parameters, decay);
  const StepStorage storage{.state = soma::find_dtype(precision.moments.format),
                            .state_rounding = precision.moments.rounding,
                            .weight_rounding = precision.weights.rounding,
                            .seed = options.seed};
  if (name == "sgd") {
    SgdOptions own{.nesterov = given.nesterov, .storage = storage};
    set(own.momentum, given.momentum);
    set(own.dampening, given.dampening);
    return std::make_unique<Sgd>(context, groups, own);
  }
  if (name == "rmsprop") {
    RmsPropOptions own{.storage = storage};
    set(own.alpha, given.alpha);
    set(own.epsilon, given.epsilon);
    set(own.momentum, given.momentum);
    return std::make_unique<RmsProp>(context, groups, own);
  }
  if (name == "adagrad") {
    AdagradOptions own{.storage = storage};
    set(own.epsilon, given.epsilon);
    set(own.rate_decay, given.rate_decay);
    set(own.initial_square, given.initial_square);
    return std::make_unique<Adagrad>(context, groups, own);
  }
  if (name == "adadelta") {
    AdadeltaOptions own{.storage = storage};
    set(own.rho, given.rho);
    set(own.epsilon, given.epsilon);
    return std::make_unique<Adadelta>(context, groups, own);
  }
  if (name == "radam") {
    RAdamOptions own{.storage = storage};
    set_betas(own, given);
    return std::make_unique<RAdam>(context, groups, own);
  }
  if (name == "adafactor") {
    if (storage.state != soma::DType::fp32)
      throw UsageError("--optimizer adafactor keeps its states in fp32, --precision " +
                       precision.name + " asks for " + std::string(soma::to_string(storage.state)));
    AdafactorOptions own{.weight_rounding = storage.weight_rounding, .seed = options.seed};
    set(own.beta2_decay, given.beta2_decay);
    set(own.floor, given.floor);
    set(own.least_scale, given.least_scale);
    set(own.clip, given.update_clip);
    return std::make_unique<Adafactor>(context, groups, own);
  }
  if (name == "lamb") {
    LambOptions own{.storage = storage};
    set_betas(own, given);
    return std::make_unique<Lamb>(context, groups, own);
  }
  AdamWOptions own{.storage = storage};
  set_betas(own, given);
  if (name == "adam") return std::make_unique<Adam>(context, groups, own);
  return std::make_unique<AdamW>(context, groups, own);
}
