#pragma once
// Trainer: trains any nn::Task; the template argument is deduced. A model that makes batches from
// its host's rows is trained from these rows, too.

#include <soma/data/batch_options.hpp>
#include <soma/train/trainer_base.hpp>

#include <type_traits>

namespace SOMA_NAMESPACE::train {

// As TrainerBase, which has the loop. fit() takes a source of batches; or the host's own rows, if
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
