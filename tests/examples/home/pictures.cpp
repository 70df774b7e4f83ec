// Trains a convolutional net on shifted pictures, with soma's parts for data.

#include "examples/home/programs.hpp"

#include <soma/data/array_source.hpp>
#include <soma/data/image_maps.hpp>
#include <soma/data/mapped_source.hpp>
#include <soma/data/prefetch.hpp>
#include <soma/io.hpp>
#include <soma/models/conv_net.hpp>
#include <soma/soma.hpp>

using namespace soma;

home::Learned home::pictures(const Pictures& training, const Pictures& held_out, const Run& run) {
  auto context = make_context({.threads = 1});
  const auto source = [&](const Pictures& made, bool shuffle) {
    const std::size_t count = made.labels.size();
    return data::ArraySource(
        context,
        Tensor::from(context, std::span<const float>(made.pixels),
                     Shape{count, 1, made.side, made.side}),
        Tensor::from(context, std::span<const std::int64_t>(made.labels), Shape{count}),
        {.shuffle = shuffle, .seed = 1});
  };
  data::ArraySource images = source(training, true), test = source(held_out, false);
  data::MappedSource shifted(images, "shift", 7, data::random_crop(1));
  data::Prefetch ahead(shifted);
  const models::ConvNet net({context, 1}, {.height = training.side,
                                           .width = training.side,
                                           .labels = 10,
                                           .blocks = {8, 16},
                                           .hidden = 32});
  nn::ClassificationTask task(net, 10);
  CheckpointFolder checkpoints(run.checkpoints);
  train::Trainer trainer(
      context, task,
      {.epochs = 8, .learning_rate = 3e-3, .checkpoints = &checkpoints, .resume = true});
  if (run.callback) trainer.add(*run.callback);
  const train::Report report = trainer.fit(ahead, &test, run.stop);
  return {report.evaluated ? report.metric("accuracy") : 0,
          state_hash(nn::state_dict(task.parameters()))};
}
