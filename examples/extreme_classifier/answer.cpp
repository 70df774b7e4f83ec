// extreme_classifier evaluate and predict.

#include "extreme_classifier/options.hpp"
#include "extreme_classifier/synthetic.hpp"
#include "extreme_classifier/texts.hpp"

#include <soma/base/fixed.hpp>
#include <soma/models/extreme_files.hpp>
#include <soma/sparse.hpp>
#include <soma/text/row_reader.hpp>
#include <soma/text/xmc_reader.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using soma::fixed;
using soma::models::ExtremeClassifier;
using soma::nn::FoundClass;

// `each_line`: blank lines are points too.
soma::data::SparsePoints points_of(const AnswerOptions& options, const ExtremeClassifier& model,
                                   bool each_line) {
  const soma::models::ExtremeOptions& sizes = model.options();
  return options.data.empty() ? synthetic::points(options.test_points, sizes.features,
                                                  sizes.classes, options.seed + 1)
                              : read_points(options.data, {.features = sizes.features,
                                                           .classes = sizes.classes,
                                                           .max_line_bytes = options.max_line_bytes,
                                                           .blank_points = each_line});
}

soma::nn::ClassSearch search_of(const AnswerOptions& options, const ExtremeClassifier& model) {
  soma::nn::ClassSearchOptions settings{.index = model.options().sampler.index,
                                        .head = options.head,
                                        .candidates = options.candidates};
  if (options.tables != 0) settings.index.tables = options.tables;
  if (options.codes != 0) settings.index.codes = options.codes;
  return model.search(settings);
}

// Finds the likeliest classes for a point's features, one point at a time.
class OneByOne {
 public:
  OneByOne(const ExtremeClassifier& model, const soma::data::SparsePoints& points,
           soma::nn::ClassSearch& search)
      : model_(model), points_(points), search_(search) {}
  std::vector<FoundClass> operator()(std::size_t point, std::size_t count) {
    const std::size_t first = points_.offsets[point], last = points_.offsets[point + 1];
    const auto values = points_.values.empty()
                            ? std::span<const float>()
                            : std::span(points_.values).subspan(first, last - first);
    model_.hidden_of(std::span(points_.ids).subspan(first, last - first), values, h_);
    return search_.top(h_.data(), count);
  }

 private:
  const ExtremeClassifier& model_;
  const soma::data::SparsePoints& points_;
  soma::nn::ClassSearch& search_;
  std::vector<float> h_{};
};

// A model of texts takes texts with labels by name.
soma::data::SparsePoints known_points(const AnswerOptions& options, const ExtremeClassifier& model,
                                      const soma::text::CountedFeatures& features) {
  if (options.data.empty())
    soma::fail(soma::error_id::train_options, "evaluate", "--data", "not given",
               "a file of texts: the model was trained on texts");
  Texts texts = read_known_texts(
      options.data, soma::models::load_label_names(options.model, model.options().classes),
      options.texts, options.max_line_bytes);
  soma::data::SparsePoints points =
      soma::models::text_points(features, texts.views(), model.options().classes);
  points.labels = std::move(texts.labels);
  return points;
}

void check_not_sparse(const AnswerOptions& options) {
  if (options.sparse)
    soma::fail(soma::error_id::train_options, "extreme_classifier", "--sparse",
               "a model of another kind", "a network: the linear kinds need no hashes");
}

}  // namespace

int evaluate(const AnswerOptions& options) {
  auto context = soma::make_context({.threads = options.threads});
  soma::add_sparse(context);
  const auto model = soma::models::load_extreme_classifier(context, options.model);
  const auto features = soma::models::load_text_features(context, options.model);
  const soma::data::SparsePoints points =
      features ? known_points(options, *model, *features) : points_of(options, *model, false);
  if (model->linear_model() != nullptr) {
    check_not_sparse(options);
    print_measured(*model, context, points, options.propensity);
    return 0;
  }
  std::cout << "all classes: "
            << text_of(measure(*model, context, points, options.batch_size, options.propensity))
            << std::endl;
  if (!options.sparse) return 0;

  soma::nn::ClassSearch search = search_of(options, *model);
  OneByOne answer(*model, points, search);
  soma::metrics::Ranking ranking = ranking_of(*model, options.propensity);
  Latencies sparse, dense;
  for (std::size_t i = 0; i < points.count(); ++i) {
    soma::check_stop(&stop_requested, "evaluate");
    std::vector<FoundClass> best;
    sparse.measure([&] { best = answer(i, 5); });
    add(ranking, best, points.labels.list(i));
  }
  // A point takes long through all classes if there are many of them.
  soma::data::PointSource one(context, points, {.batch_sequences = 1, .shuffle = false});
  soma::data::Batch batch;
  for (std::size_t i = 0; i < 30 && one.next(batch); ++i)
    dense.measure([&] { static_cast<void>(model->top(batch, 5)); });
  std::cout << "by hashes:   " << text_of(ranking) << '\n'
            << search.index().tables() << " tables of 8^" << search.index().codes()
            << " buckets, the " << search.options().head << " longest rows, up to "
            << search.options().candidates << " candidates\na point took " << sparse.text()
            << "; through all classes " << dense.text() << '\n';
  return 0;
}

int predict(const AnswerOptions& options) {
  auto context = soma::make_context({.threads = options.threads});
  soma::add_sparse(context);
  const auto model = soma::models::load_extreme_classifier(context, options.model);
  const auto features = soma::models::load_text_features(context, options.model);
  soma::data::SparsePoints points;
  std::vector<std::uint8_t> blank;  // 1: a line of nothing, which has an empty answer
  if (features) {
    const std::vector<std::string> lines = read_lines(options.data, options.max_line_bytes);
    for (const std::string& line : lines) blank.push_back(soma::text::is_blank(line) ? 1 : 0);
    points = soma::models::text_points(*features,
                                       std::vector<std::string_view>(lines.begin(), lines.end()),
                                       model->options().classes);
  } else {
    points = points_of(options, *model, true);
    for (std::size_t i = 0; i < points.count(); ++i)
      blank.push_back(points.offsets[i] == points.offsets[i + 1] ? 1 : 0);
  }
  const auto is_blank = [&](std::size_t i) { return blank[i] != 0; };
  const std::vector<std::string> names =
      soma::models::load_label_names(options.model, model->options().classes);
  const auto print = [&](const std::vector<FoundClass>& best) {
    for (std::size_t k = 0; k < best.size(); ++k) {
      const std::string score = fixed(static_cast<double>(best[k].logit), 4);
      // Names may have spaces and colons: tabs stand between them and their scores.
      if (names.empty())
        std::cout << (k == 0 ? "" : " ") << best[k].id << ':' << score;
      else
        std::cout << (k == 0 ? "" : "\t") << names[static_cast<std::size_t>(best[k].id)] << '\t'
                  << score;
    }
    std::cout << '\n';
  };
  if (model->linear_model() != nullptr) {
    check_not_sparse(options);
    std::size_t point = 0;
    for (const std::vector<FoundClass>& best : model->top(points, options.top))
      print(is_blank(point++) ? std::vector<FoundClass>() : best);
    return 0;
  }
  if (options.sparse) {
    soma::nn::ClassSearch search = search_of(options, *model);
    OneByOne answer(*model, points, search);
    for (std::size_t i = 0; i < points.count(); ++i) {
      soma::check_stop(&stop_requested, "predict");
      print(is_blank(i) ? std::vector<FoundClass>() : answer(i, options.top));
    }
    return 0;
  }
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = options.batch_size, .shuffle = false});
  std::size_t point = 0;
  for (soma::data::Batch batch; source.next(batch);) {
    soma::check_stop(&stop_requested, "predict");
    for (const std::vector<FoundClass>& best : model->top(batch, options.top))
      print(is_blank(point++) ? std::vector<FoundClass>() : best);
  }
  return 0;
}
