#pragma once
// Trainer: TrainerBase for a model that makes batches from its host's rows.

#include <soma/data/batch_options.hpp>
#include <soma/train/trainer_base.hpp>

#include <type_traits>

namespace SOMA_NAMESPACE::train {

// A trainer of a model that is a task, and that makes batches from the host's own rows:
// model.batches(rows, options) returns a pointer to a BatchSource.
template <class Model>
class Trainer : public TrainerBase {
 public:
  Trainer(Context& context, Model& model, const TrainerOptions& options = {})
      : TrainerBase(context, model, options), model_(model) {}

  using TrainerBase::fit;
  template <class HostRows>
  requires(!std::is_base_of_v<data::BatchSource, HostRows>) Report
      fit(const HostRows& rows, const HostRows& validation, const StopFlag* stop = nullptr) {
    data::BatchOptions options{.batch_sequences = this->options().batch_size,
                               .seed = this->options().seed};
    const auto batches = model_.batches(rows, options);
    options.shuffle = false;
    const auto rest = model_.batches(validation, options);
    return fit(*batches, &*rest, stop);
  }

 private:
  Model& model_;
};

}  // namespace SOMA_NAMESPACE::train
