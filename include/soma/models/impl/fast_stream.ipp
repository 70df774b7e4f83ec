#pragma once
// The fit of FastLinear by its memory limit. Rows whose features fit are solved in memory. For
// others, the features are learnt from a sample of the texts, and row-wise Adagrad trains the
// weights over all texts, whose features are computed anew in each pass.

#include <soma/models/fast_linear.hpp>

#include <soma/autograd/embedding_bag.hpp>
#include <soma/base/error.hpp>
#include <soma/data/order.hpp>
#include <soma/data/point_source.hpp>
#include <soma/models/fast_bag.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/optim/row_optimizers.hpp>
#include <soma/system/machine.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

namespace detail {

// The bytes that learning takes for each word, run and part of its texts: at most 28 for numbers
// and counts while these vectors grow, and 68 for the hash, the row and the slots of a new one. Few
// of those of many texts are new; of those of a sample, up to every second one.
inline constexpr std::uint64_t learning_bytes = 40, sample_bytes = 28 + 68 / 2 + 2;
// A table of features from fewer texts would know few words.
inline constexpr std::size_t fewest_sampled = 100;
inline constexpr std::size_t stream_batch = 32;
inline constexpr double stream_rate = 0.2;  // falling linearly to 0
inline constexpr std::uint64_t stream_passes = 3;
// Words, runs and parts that a stream counts at a time, and the bytes of each meanwhile.
inline constexpr std::size_t stream_chunk = std::size_t{1} << 14;
inline constexpr std::uint64_t stream_chunk_bytes = 64;
// A heap takes its memory in blocks.
inline constexpr std::uint64_t stream_spare_bytes = std::uint64_t{2} << 20;

// No text has more words, runs and parts than if each of its bytes were a word.
inline std::uint64_t most_occurrences(std::span<const std::string_view> texts,
                                      const text::CountedFeatureOptions& options) {
  std::uint64_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  const std::uint64_t parts = options.parts != 0 ? options.parts - options.parts_from + 1 : 0;
  return bytes * ((std::max)(options.ngrams, std::size_t{3}) + 3 * parts);
}

// Texts with about stream_chunk features, in whole batches.
inline std::size_t texts_of_chunk(std::uint64_t features, std::size_t texts) {
  const std::uint64_t each = (std::max)(features / texts, std::uint64_t{1});
  return (std::max)(static_cast<std::size_t>(stream_chunk / each) / stream_batch, std::size_t{1}) *
         stream_batch;
}

}  // namespace detail

SOMA_INLINE FastLinear::Learned FastLinear::learn(const FastLinearData& data,
                                                  const FastFitOptions& options,
                                                  const StopFlag* stop) {
  const std::uint64_t limit =
      options.memory_limit != 0 ? options.memory_limit : physical_memory_bytes() / 2;
  fitted_.memory_limit = limit;
  const auto random_order = [&] {
    return data::shuffled_order(data.texts.size(),
                                data::epoch_draw(options.seed, 0, "fast_sample"));
  };
  fitted_.memory_bytes =
      detail::most_occurrences(data.texts, features_.options()) * detail::learning_bytes;
  if (limit != 0 && fitted_.memory_bytes > limit) {  // a thousand texts tell more exactly
    const std::vector<std::uint32_t> order = random_order();
    const std::size_t looked = (std::min)(order.size(), std::size_t{1000});
    std::uint64_t some = 0;
    for (std::size_t i = 0; i < looked; ++i) some += features_.occurrences(data.texts[order[i]]);
    fitted_.memory_bytes = some * order.size() / looked * detail::learning_bytes;
  }
  if (limit == 0 || fitted_.memory_bytes <= limit) {
    Learned learned;
    learned.counts = features_.learn(context_, data.texts);
    check_stop(stop, detail::linear_name);
    fitted_.features = features_.rows();
    fitted_.memory_bytes =
        optim::PanelSolver::memory_bytes(fitted_.rows, fitted_.features, columns()) +
        std::uint64_t{learned.counts.rows.size()} * 16 +
        (fitted_.features + classes_) * fitted_.bag_width * std::uint64_t{12};
    if (limit == 0 || fitted_.memory_bytes <= limit) return learned;
  }
  return learn_sample(data, random_order(), options, stop);
}

// Learning takes half of the memory, which the process may keep when it is free again. Where the
// weights do not fit beside it, a smaller sample has fewer features.
SOMA_INLINE FastLinear::Learned FastLinear::learn_sample(const FastLinearData& data,
                                                         std::span<const std::uint32_t> order,
                                                         const FastFitOptions& options,
                                                         const StopFlag* stop) {
  std::uint64_t occurrences = 0;
  std::size_t taken = 0;
  for (; taken < order.size(); ++taken) {
    const std::uint64_t own = features_.occurrences(data.texts[order[taken]]);
    if ((occurrences + own) * detail::sample_bytes > fitted_.memory_limit / 2) break;
    occurrences += own;
  }
  const std::uint64_t each =
      (occurrences / (std::max)(taken, std::size_t{1}) + 1) * detail::sample_bytes;
  const std::size_t fewest = (std::min)(order.size(), detail::fewest_sampled);
  std::uint64_t needed = 0;
  for (std::size_t i = 0; i < fewest && taken < fewest; ++i)
    needed += features_.occurrences(data.texts[order[i]]) * detail::sample_bytes * 2;
  for (; taken >= fewest && taken > 0; taken = taken / 4 * 3) {
    check_stop(stop, detail::linear_name);
    Learned learned;
    learned.streams = true;
    learned.texts.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(taken));
    std::sort(learned.texts.begin(), learned.texts.end());
    std::vector<std::string_view> texts;
    for (const std::uint32_t text : learned.texts) {
      texts.push_back(data.texts[text]);
      for (auto i = data.label_begins[text]; i < data.label_begins[text + 1]; ++i)
        learned.labels.push_back(data.labels[static_cast<std::size_t>(i)]);
      learned.label_begins.push_back(static_cast<std::int64_t>(learned.labels.size()));
    }
    features_ = text::CountedFeatures(features_.options());
    learned.counts = features_.learn(context_, texts);
    needed = taken * each + stream_bytes(learned.counts);
    if (needed > fitted_.memory_limit) continue;
    fitted_.streams = true;
    fitted_.features = features_.rows();
    fitted_.sampled_rows = taken;
    fitted_.bag_width = 0;
    if (options.passes == 0) fitted_.passes = detail::stream_passes;
    return learned;
  }
  fail(error_id::out_of_memory, detail::linear_name,
       "features and weights of " + std::to_string(fewest) + " sampled texts or more for " +
           std::to_string(classes_) + " classes",
       std::to_string(needed) + " bytes", "at most " + std::to_string(fitted_.memory_limit));
}

SOMA_INLINE std::uint64_t FastLinear::stream_bytes(const text::FeatureCounts& counts) const {
  const std::uint64_t rows = features_.rows() + 1, known = counts.rows.size(),
                      texts = (std::max)(counts.texts(), std::size_t{1});
  const std::uint64_t slots = std::uint64_t{8} << features_.table().bits;
  const std::uint64_t weights = rows * (classes_ + 1) * 4;  // with the optimizer's sums
  const std::uint64_t model = optim::PanelSolver::memory_bytes(0, rows, columns());
  const std::uint64_t folded = columns() == classes_ ? 0 : rows * 4;
  const std::uint64_t batch =
      detail::stream_batch * (known / texts + 8) * (classes_ * 8 + std::uint64_t{32});
  const std::uint64_t held_out = fitted_.memory_limit / 8;
  return rows * 15 + slots + known * 12 + rows * 8 + weights + model + folded + batch + held_out +
         detail::stream_chunk * detail::stream_chunk_bytes + detail::stream_spare_bytes +
         fitted_.rows * 9;
}

// A stream keeps its held-out rows in an eighth of the memory.
SOMA_INLINE std::size_t FastLinear::most_held_out(const Learned& learned) const {
  constexpr std::uint64_t most = 5000;
  if (!learned.streams) return most;
  const std::uint64_t each =
      learned.counts.rows.size() / learned.counts.texts() * 16 + std::uint64_t{classes_} * 4 + 64;
  return static_cast<std::size_t>((std::min)(most, fitted_.memory_limit / 8 / each));
}

SOMA_INLINE void FastLinear::weigh(const FastLinearData& data, const Learned& learned,
                                   std::span<const std::uint8_t> training) {
  if (!learned.streams) {
    features_.weigh(learned.counts, data.label_begins, data.labels, classes_, training);
    return;
  }
  std::vector<std::uint8_t> used;
  for (const std::uint32_t text : learned.texts) used.push_back(training[text]);
  features_.weigh(learned.counts, learned.label_begins, learned.labels, classes_, used);
}

// The rows of texts, on all threads, in the order of the texts.
SOMA_INLINE text::FeatureRows FastLinear::rows_of(std::span<const std::string_view> texts) const {
  const soma::detail::UnevenRanges ranges(context_, texts.size(), std::size_t{1} << 13,
                                          [&](std::size_t i) { return texts[i].size() + 16; });
  std::vector<text::FeatureRows> parts(ranges.tasks());
  ranges.run(context_, [&](std::size_t begin, std::size_t end, std::size_t task) {
    for (std::size_t i = begin; i < end; ++i) features_.add(texts[i], parts[task]);
  });
  text::FeatureRows rows;
  for (text::FeatureRows& part : parts) {
    const auto before = static_cast<std::int64_t>(rows.features.size());
    for (std::size_t i = 1; i < part.begins.size(); ++i)
      rows.begins.push_back(before + part.begins[i]);
    rows.features.insert(rows.features.end(), part.features.begin(), part.features.end());
    rows.values.insert(rows.values.end(), part.values.begin(), part.values.end());
    rows.known.insert(rows.known.end(), part.known.begin(), part.known.end());
    part = {};
  }
  return rows;
}

// The bias is one more row of the weights, whose value is the known share of a text. A text of
// which nothing is known teaches nothing.
SOMA_INLINE data::SparsePoints FastLinear::stream_points(
    const FastLinearData& data, std::span<const std::uint32_t> texts) const {
  std::vector<std::string_view> own;
  for (const std::uint32_t text : texts) own.push_back(data.texts[text]);
  const text::FeatureRows rows = rows_of(own);
  data::SparsePoints points{.features = features_.rows() + 1, .classes = classes_};
  points.labels.offsets.push_back(0);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!(rows.known[i] > 0)) continue;
    const auto begin = static_cast<std::ptrdiff_t>(rows.begins[i]),
               end = static_cast<std::ptrdiff_t>(rows.begins[i + 1]);
    points.ids.insert(points.ids.end(), rows.features.begin() + begin, rows.features.begin() + end);
    points.values.insert(points.values.end(), rows.values.begin() + begin,
                         rows.values.begin() + end);
    points.ids.push_back(static_cast<std::int32_t>(features_.rows()));
    points.values.push_back(rows.known[i]);
    points.offsets.push_back(points.ids.size());
    const auto first = data.label_begins[texts[i]], last = data.label_begins[texts[i] + 1];
    points.labels.add(data.labels.subspan(static_cast<std::size_t>(first),
                                          static_cast<std::size_t>(last - first)));
  }
  return points;
}

SOMA_INLINE void FastLinear::stream(const FastLinearData& data, const Learned& learned,
                                    std::span<const std::uint8_t> training,
                                    const FastFitOptions& options, const StopFlag* stop) {
  const std::size_t rows = features_.rows();
  const Var table = Var::parameter(context_, Tensor::zeros(context_, Shape{rows + 1, classes_}));
  const Parameters parameters{{.name = "table", .var = table}};
  optim::RowAdagrad optimizer(context_, parameters);
  Tape tape(context_);
  std::uint32_t step = 0;
  const std::size_t chunk =
      detail::texts_of_chunk(learned.counts.rows.size(), learned.counts.texts());
  for (std::uint64_t pass = 0; pass < fitted_.passes; ++pass) {
    std::vector<std::uint32_t> order = data::shuffled_order(data.texts.size(), options.seed, pass);
    order.erase(std::remove_if(order.begin(), order.end(),
                               [&](std::uint32_t text) { return training[text] == 0; }),
                order.end());
    for (std::size_t begin = 0; begin < order.size(); begin += chunk) {
      const std::size_t count = (std::min)(chunk, order.size() - begin);
      data::SparsePoints points = stream_points(data, std::span(order).subspan(begin, count));
      if (points.count() == 0) continue;
      data::PointSource source(context_, std::move(points),
                               {.batch_sequences = detail::stream_batch, .shuffle = false});
      const double share = static_cast<double>(begin) / static_cast<double>(order.size());
      const double gone = (static_cast<double>(pass) + share) / static_cast<double>(fitted_.passes);
      data::Batch batch;
      while (source.next(batch)) {
        check_stop(stop, detail::linear_name);
        clear_gradients(parameters);
        tape.reset(step++);
        const Var logits = embedding_bag(tape, table, tape.constant(batch.inputs), BagMode::sum,
                                         tape.constant(batch.values));
        detail::backward_of_labels(tape, logits, batch, kind_, options.class_weights);
        optimizer.step({.rate = detail::stream_rate * (1 - gone)});
      }
    }
  }
  const std::span<const float> weights = table.value().span<float>();
  if (columns() == classes_) {
    model_ = optim::PanelModel::of_rows(context_.heap(), rows, classes_,
                                        weights.first(rows * classes_), weights.last(classes_));
    return;
  }
  // Two classes: the second one's scores, and the first one's are their negatives.
  std::vector<float> folded(rows + 1);
  for (std::size_t row = 0; row <= rows; ++row)
    folded[row] = (weights[2 * row + 1] - weights[2 * row]) / 2;
  model_ = optim::PanelModel::of_rows(context_.heap(), rows, 1, std::span(folded).first(rows),
                                      std::span(folded).last(1));
}

}  // namespace SOMA_NAMESPACE::models
