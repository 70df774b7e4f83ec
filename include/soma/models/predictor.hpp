#pragma once
// Predictor: answers texts with a model's folder, for a host that trains nothing. It reads the
// folder in place, packs weights once if asked, cuts large calls into batches, and may be called
// from any thread.
//
//   soma::models::Predictor predictor(context, "folder", {.packed = true, .most_tokens = 4096});
//   const auto answers = predictor.predict(texts);        // a classifier's folder
//   const soma::Tensor vectors = predictor.embed(texts);  // [texts, width]

#include <soma/models/answering.hpp>
#include <soma/models/prediction.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/models/text_encoder.hpp>
#include <soma/ops/product/packed_weights.hpp>
#include <soma/system/threads.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

struct PredictorOptions {
  // Weights of linear layers are packed at their first use (PackedWeights): answers come sooner,
  // and these weights are in memory twice.
  bool packed = false;
  // The most tokens of a batch (AnswerOptions), at least those of the longest text. 0: 4096, or
  // max_length if that is more.
  std::size_t most_tokens = 0;
  // The number of calls that compute at once, at least 1, each in memory of its own. The context's
  // threads serve all of them in turn.
  std::size_t lanes = 1;
  // Parameters that are whole fp32 tensors of the file stay in the mapped file: loading takes
  // milliseconds, and processes share these pages. A file that is cut while it is mapped ends the
  // process by SIGBUS (a file that is replaced does not: the old one stays). false: everything is
  // read at once.
  bool in_place = true;
  DType activations = DType::fp32;
  // The most tokens of a text; longer texts are cut. 0: the folder's limit.
  std::size_t max_length = 0;
  // For embed(), as in TextEncoderOptions.
  std::optional<Pooling> pooling{};
  std::optional<bool> normalised{};
};

// Counts of a Predictor's calls so far; times of the latest 1,024 calls, in seconds, 0 if there was
// none.
struct PredictorStatistics {
  std::uint64_t calls = 0, texts = 0, tokens = 0;
  double p50 = 0, p99 = 0;
};

// Bytes of a Predictor's memory.
struct PredictorBytes {
  std::size_t weights = 0;    // in the mapped file or not
  std::size_t panels = 0;     // the panels of packed weights
  std::size_t workspace = 0;  // the context's heap in use beside them, at its peak
};

class Predictor {
 public:
  // Errors of TextClassifier::from_pretrained and TextEncoder::from_pretrained; models.predictor
  // (no lane).
  Predictor(Context& context, std::string_view folder, const PredictorOptions& options = {});
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;
  ~Predictor();

  // TextClassifier::predict(), with the same bits. Errors as there and of classifier();
  // models.predictor: most_tokens is below the tokens of the longest text.
  std::vector<Prediction> predict(std::span<const std::string_view> texts,
                                  std::span<const std::string_view> pairs = {}) const;
  Prediction predict(std::string_view text) const;
  // TextEncoder::embed(), with the same bits: fp32 [texts, width].
  Tensor embed(std::span<const std::string_view> texts) const;

  // Packs weights and reserves the memory for batches of so many tokens in every lane, so that
  // later calls of that size ask the host for no memory. Computes such a batch.
  void warm(std::size_t tokens) const;

  // Gives back the memory of weights in the mapped file that have panels, which are then in memory
  // once, as panels: call it after warm(). Products that read a weight itself, as those of 15 and
  // 16 rows may, fetch it from the file again; answers keep their bits. The number of bytes, 0 on
  // systems that cannot. Error models.predictor: `packed` or `in_place` is false.
  std::size_t release_originals() const;

  PredictorBytes bytes() const;
  PredictorStatistics statistics() const;

  // The classifier, with its labels, and as a task of evaluations. Error state.missing_name: the
  // folder has no trained head, and would answer from random weights.
  const TextClassifier& classifier() const;
  TextClassifier& classifier();
  // The encoder that embed() uses.
  const TextEncoder& encoder() const;

 private:
  class Call;

  void check_trained() const;
  Parameters parameters() const;
  AnswerOptions answer_options() const;

  Context& context_;
  std::string folder_;
  PredictorOptions options_;
  std::unique_ptr<TextClassifier> classifier_;
  mutable std::optional<TextEncoder> encoder_;  // made at its first use if there is a classifier
  mutable Mutex encoder_mutex_{};
  mutable PackedWeights packed_;

  mutable Mutex mutex_{};  // protects everything below
  mutable Condition left_{};
  mutable std::size_t busy_ = 0;  // lanes in use
  mutable PredictorStatistics counts_{};
  mutable std::array<std::int64_t, 1024> times_{};  // nanoseconds; the oldest is overwritten
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/predictor.ipp>
#endif
