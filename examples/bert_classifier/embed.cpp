// embed: a vector for each line.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/train/outputs.hpp"
#include "training/compute.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/npy.hpp>
#include <soma/models/predictor.hpp>
#include <soma/soma.hpp>
#include <soma/text/text_lines.hpp>

#include <algorithm>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using soma::models::Predictor;

// Embeds the lines of files in batches. Vectors go to standard output, a JSON list a line, or are
// kept for a file.
class Embedding {
 public:
  Embedding(soma::Context& context, const Predictor& predictor, const EmbedOptions& options)
      : context_(context),
        predictor_(predictor),
        width_(predictor.encoder().width()),
        options_(options) {
    std::ios::sync_with_stdio(false);
  }

  void read(const std::string& file) {
    soma::text::RowOptions reading;
    reading.stop = &stop_requested;
    soma::text::TextLines input(file, "embed", reading);
    for (std::string line; std::cout && input.next(line);) {
      texts_.push_back(std::move(line));
      if (texts_.size() >= options_.batch_size || input.must_wait()) embed();
    }
    embed();
  }

  void save() const {
    if (options_.output.empty()) return;
    soma::save_npy(options_.output, soma::Tensor::from(context_, std::span<const float>(kept_),
                                                       soma::Shape{kept_.size() / width_, width_}));
  }

 private:
  void embed() {
    const std::vector<std::string_view> views(texts_.begin(), texts_.end());
    const soma::Tensor vectors = predictor_.embed(views);
    const std::span<const float> all = vectors.span<float>();
    if (options_.output.empty())
      for (std::size_t i = 0; i < texts_.size(); ++i) print(all.subspan(i * width_, width_));
    else
      kept_.insert(kept_.end(), all.begin(), all.end());
    std::cout << std::flush;
    texts_.clear();
  }

  static void print(std::span<const float> vector) {
    std::string line;
    for (const float number : vector)
      line.append(line.empty() ? "[" : ", ").append(soma::float_text(number));
    std::cout << line << "]\n";
  }

  soma::Context& context_;
  const Predictor& predictor_;
  std::size_t width_;
  const EmbedOptions& options_;
  std::vector<std::string> texts_;
  std::vector<float> kept_;
};

}  // namespace

int embed(const EmbedOptions& options) {
  soma::models::PredictorOptions how{.max_length = options.max_length};
  const auto* const names = std::begin(soma::models::pooling_names);
  const auto* const named =
      std::find(names, std::end(soma::models::pooling_names), options.pooling);
  if (!options.pooling.empty()) how.pooling = static_cast<soma::models::Pooling>(named - names);
  if (options.normalise) how.normalised = true;
  try_outputs(options);
  Compute compute(options.compute);
  const Predictor predictor(compute.context(), options.model, how);
  Embedding embedding(compute.context(), predictor, options);
  try {
    for (const std::string& file : options.files) embedding.read(file);
  } catch (const soma::Error& error) {
    if (error.id() != soma::error_id::stopped) throw;
    throw Interrupted("embed: ended by a signal");
  }
  embedding.save();
  return 0;
}
