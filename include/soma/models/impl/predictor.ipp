#pragma once
// The functions of predictor.hpp.

#include <soma/base/contains.hpp>
#include <soma/models/predictor.hpp>

#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/models/model_files.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/nn/later.hpp>
#include <soma/nn/scope.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/mapped_pages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

namespace detail {

SOMA_INLINE void make_parameters(Context& context, const nn::Later& files,
                                 const Parameters& parameters, bool in_place) {
  if (in_place)
    files.make_in_place(context, parameters);
  else
    files.make(context, parameters);
}

}  // namespace detail

// A call: waits for a lane, and is counted at its end.
class Predictor::Call {
 public:
  Call(const Predictor& predictor, std::size_t texts)
      : predictor_(predictor), texts_(texts), start_(monotonic_nanoseconds()) {
    Mutex::Lock lock(predictor_.mutex_);
    predictor_.left_.wait(lock, [&] { return predictor_.busy_ < predictor_.options_.lanes; });
    ++predictor_.busy_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    const std::int64_t time = monotonic_nanoseconds() - start_;
    const Mutex::Lock lock(predictor_.mutex_);
    --predictor_.busy_;
    PredictorStatistics& counts = predictor_.counts_;
    predictor_.times_[counts.calls++ % predictor_.times_.size()] = time;
    counts.texts += texts_;
    counts.tokens += tokens;
    predictor_.left_.notify_one();
  }

  std::size_t tokens = 0;

 private:
  const Predictor& predictor_;
  std::size_t texts_;
  std::int64_t start_;
};

SOMA_INLINE Predictor::Predictor(Context& context, std::string_view folder,
                                 const PredictorOptions& options)
    : context_(context), folder_(folder), options_(options), packed_(context) {
  if (options.lanes == 0)
    fail(error_id::predictor, "Predictor", "options.lanes", "0", "at least 1");
  nn::Later files;
  if (!detail::is_encoder_folder(folder_)) {
    classifier_.reset(new TextClassifier(TextClassifier::from_pretrained(
        context, folder, {.max_length = options.max_length, .later = &files})));
    detail::make_parameters(context, files, classifier_->parameters(), options.in_place);
  } else {
    encoder_.emplace(TextEncoder::from_pretrained(context, folder,
                                                  {.pooling = options.pooling,
                                                   .normalised = options.normalised,
                                                   .max_length = options.max_length,
                                                   .later = &files}));
    detail::make_parameters(context, files, nn::parameters(*encoder_), options.in_place);
  }
}

SOMA_INLINE Predictor::~Predictor() = default;

SOMA_INLINE void Predictor::check_trained() const {
  if (classifier_ && classifier_->fresh().empty()) return;
  fail(error_id::missing_name, "Predictor", "name",
       soma::quoted(classifier_ ? classifier_->fresh().front() : "classifier.weight") + ", which " +
           soma::quoted(folder_) + " has no trained values for",
       "a model that was trained to classify (train --pretrained makes such a model)");
}

SOMA_INLINE const TextClassifier& Predictor::classifier() const {
  check_trained();
  return *classifier_;
}

SOMA_INLINE TextClassifier& Predictor::classifier() {
  check_trained();
  return *classifier_;
}

SOMA_INLINE const TextEncoder& Predictor::encoder() const {
  const Mutex::Lock lock(encoder_mutex_);
  if (!encoder_) {
    // A folder that does not say how vectors are made: as TextEncoder::from_pretrained.
    const Pooling pooling = classifier_->config().pooling;
    encoder_.emplace(context_, classifier_->tokenizer(), classifier_->model(),
                     TextEncoderOptions{.pooling = options_.pooling.value_or(
                                            pooling != Pooling::first ? pooling : Pooling::mean),
                                        .normalised = options_.normalised,
                                        .max_length = classifier_->max_length()});
  }
  return *encoder_;
}

SOMA_INLINE AnswerOptions Predictor::answer_options() const {
  constexpr std::size_t usual_tokens = 4096;
  const std::size_t longest = classifier_ ? classifier_->max_length() : encoder_->max_length();
  return {.activations = options_.activations,
          .packed = options_.packed ? &packed_ : nullptr,
          .most_tokens =
              options_.most_tokens != 0 ? options_.most_tokens : (std::max)(usual_tokens, longest)};
}

SOMA_INLINE std::vector<Prediction> Predictor::predict(
    std::span<const std::string_view> texts, std::span<const std::string_view> pairs) const {
  const TextClassifier& model = classifier();
  Call call(*this, texts.size());
  AnswerOptions options = answer_options();
  options.tokens = &call.tokens;
  return model.predict(texts, pairs, options);
}

SOMA_INLINE Prediction Predictor::predict(std::string_view text) const {
  return predict(std::span<const std::string_view>(&text, 1)).front();
}

SOMA_INLINE Tensor Predictor::embed(std::span<const std::string_view> texts) const {
  const TextEncoder& model = encoder();
  Call call(*this, texts.size());
  AnswerOptions options = answer_options();
  options.tokens = &call.tokens;
  return model.embed(texts, options);
}

SOMA_INLINE void Predictor::warm(std::size_t tokens) const {
  const BertConfig& config = classifier_ ? classifier_->config() : encoder_->config();
  detail::TokenizedPairs texts{.offsets = {0}};
  for (std::size_t left = tokens; left != 0;) {
    const std::size_t length = (std::min)(left, config.positions);
    texts.ids.resize(texts.ids.size() + length);
    texts.offsets.push_back(texts.ids.size());
    left -= length;
  }
  AnswerOptions options = answer_options();
  options.most_tokens = to_end;
  const std::size_t count = texts.offsets.size() - 1;
  const auto run = [&](detail::ComputeAnswers compute, const void* model, std::size_t width) {
    std::vector<float> answers(count * width);
    detail::answer_texts("Predictor::warm", context_, texts, options, model, compute, width,
                         answers.data());
  };
  Heap& heap = context_.heap();
  const std::size_t used = heap.bytes_in_use();
  if (classifier_)
    run(
        [](const void* of, Tape& tape, const Var& ids, const Var& types) {
          return (*static_cast<const BertClassifier*>(of))(tape, ids, types);
        },
        &classifier_->model(), classifier_->labels().size());
  else
    run([](const void* of, Tape& tape, const Var& ids,
           const Var& types) { return (*static_cast<const TextEncoder*>(of))(tape, ids, types); },
        &encoder(), encoder().width());
  if (options_.lanes > 1) heap.reserve((options_.lanes - 1) * (heap.peak_bytes() - used));
}

SOMA_INLINE Parameters Predictor::parameters() const {
  return classifier_ ? classifier_->parameters() : nn::parameters(encoder());
}

SOMA_INLINE std::size_t Predictor::release_originals() const {
  const auto require = [](bool given, std::string_view option) {
    if (!given)
      fail(error_id::predictor, "Predictor::release_originals",
           std::string("options.").append(option), "false",
           "true: memory of packed weights in a mapped file can be given back");
  };
  require(options_.packed, "packed");
  require(options_.in_place, "in_place");
  std::size_t released = 0;
  for (const Parameter& parameter : parameters()) {
    const Tensor& value = parameter.var.value();
    // Values that cannot be written lie in the file.
    if (!value.storage().writable() && packed_.holds(value))
      released += system::release_pages(static_cast<const std::byte*>(value.raw()), value.bytes());
  }
  return released;
}

SOMA_INLINE PredictorBytes Predictor::bytes() const {
  PredictorBytes result;
  std::size_t in_heap = 0;
  std::vector<std::uint64_t> seen;
  for (const Parameter& parameter : parameters()) {
    const Tensor& value = parameter.var.value();
    if (contains(seen, value.storage().id()) && !parameter.whole()) continue;
    seen.push_back(value.storage().id());
    result.weights += value.bytes();
    if (value.storage().writable()) in_heap += value.bytes();
  }
  result.panels = packed_.bytes();
  const std::size_t known = in_heap + result.panels, peak = context_.heap().peak_bytes();
  result.workspace = peak > known ? peak - known : 0;
  return result;
}

SOMA_INLINE PredictorStatistics Predictor::statistics() const {
  const Mutex::Lock lock(mutex_);
  PredictorStatistics result = counts_;
  const auto known = static_cast<std::size_t>(
      (std::min)(counts_.calls, static_cast<std::uint64_t>(times_.size())));
  if (known == 0) return result;
  std::vector<std::int64_t> sorted(times_.begin(),
                                   times_.begin() + static_cast<std::ptrdiff_t>(known));
  std::sort(sorted.begin(), sorted.end());
  // The smallest time that a share of the calls does not exceed.
  const auto share = [&](std::size_t percent) {
    return static_cast<double>(sorted[(known * percent + 99) / 100 - 1]) * 1e-9;
  };
  result.p50 = share(50), result.p99 = share(99);
  return result;
}

}  // namespace SOMA_NAMESPACE::models
