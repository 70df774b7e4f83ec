// Trains a convolutional net on shifted pictures, with a source of its own around another.

#include "examples/home/programs.hpp"

#include <soma/data/array_source.hpp>
#include <soma/data/prefetch.hpp>
#include <soma/io.hpp>
#include <soma/models/conv_net.hpp>
#include <soma/soma.hpp>

#include <algorithm>

using namespace soma;

namespace {

class ShiftedSource final : public data::BatchSource {
 public:
  ShiftedSource(data::BatchSource& source, std::size_t pad, std::uint64_t seed)
      : source_(source), pad_(pad), seed_(seed) {}

  bool next(data::Batch& batch) override {
    if (!source_.next(batch)) return false;
    const Tensor& rows = batch.inputs.rows;
    const std::size_t side = rows.size(2), pixels = side * side;
    float* image = rows.mutable_span<float>().data();
    std::vector<float> before(pixels);
    for (std::size_t i = 0; i < rows.size(0); ++i, image += pixels) {
      DrawSequence draws({.seed = seed_,
                          .stream = stream_id("data.map", "shift"),
                          .step = static_cast<std::uint32_t>(batch.epoch),
                          .index = std::uint64_t{batch.items[i]} << 32});
      const auto range = static_cast<std::uint32_t>(2 * pad_ + 1);
      const int pad = static_cast<int>(pad_), size = static_cast<int>(side);
      const int down = static_cast<int>(draws.below(range)) - pad;
      const int right = static_cast<int>(draws.below(range)) - pad;
      std::copy_n(image, pixels, before.begin());
      std::fill_n(image, pixels, 0.0f);
      for (int y = std::max(0, down); y < std::min(size, size + down); ++y)
        for (int x = std::max(0, right); x < std::min(size, size + right); ++x)
          image[y * size + x] = before[static_cast<std::size_t>((y - down) * size + x - right)];
    }
    return true;
  }
  data::Position position() const override { return source_.position(); }
  void seek(data::Position position) override { source_.seek(position); }
  std::uint64_t batches(std::uint64_t epoch) const override { return source_.batches(epoch); }
  std::uint64_t hash() const override {
    data::ContentHash hash;
    hash.add(source_.hash());
    hash.add(pad_);
    hash.add(seed_);
    return hash.value();
  }
  void describe(Record& record) const override {
    source_.describe(record);
    record.set("data.shift", pad_);
  }
  std::size_t largest_rows() const override { return source_.largest_rows(); }
  std::size_t largest_sequences() const override { return source_.largest_sequences(); }

 private:
  data::BatchSource& source_;
  std::size_t pad_;
  std::uint64_t seed_;
};

}  // namespace

home::Learned home::pictures_by_hand(const Pictures& training, const Pictures& held_out,
                                     const Run& run) {
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
  ShiftedSource shifted(images, 1, 7);
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
