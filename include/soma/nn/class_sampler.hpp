#pragma once
// ClassSampler: chooses the classes that a batch is trained against among very many: its labels,
// and classes to tell them from. One set serves the whole batch, so that its arithmetic is dense;
// or each sample has a set of its own. Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/autograd/list_loss.hpp>
#include <soma/base/record.hpp>
#include <soma/data/labels.hpp>
#include <soma/nn/class_candidates.hpp>
#include <soma/nn/class_index.hpp>
#include <soma/numeric/draw_sequence.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/state/state_dict.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

enum class Sampler : std::uint8_t {
  full,        // all classes: no set is drawn
  uniform,     // labels, then classes drawn evenly
  lsh_shared,  // labels, then classes that collide with most of the batch's queries, then random
               // ones
  lsh_per_sample,  // the same for each sample alone
};
inline constexpr std::string_view sampler_names[] = {"full", "uniform", "lsh_shared",
                                                     "lsh_per_sample"};
constexpr bool uses_index(Sampler kind) {
  return kind == Sampler::lsh_shared || kind == Sampler::lsh_per_sample;
}

struct SamplerOptions {
  Sampler kind = Sampler::uniform;
  // Classes of a batch; lsh_per_sample: of a sample. A batch, or a sample, with more labels than
  // that has a set of its labels and half as many others as `set`.
  std::size_t set = 2048;
  std::uint64_t seed = 0;
  // With an index: steps between its refreshes. Until the first refresh rows are still random and
  // carry no information, so the set is drawn evenly.
  std::uint64_t refresh_every = 50;
  ClassIndexOptions index{};
};
void fields(FieldVisitor& visitor, SamplerOptions& options);

// A function of classes, width of the rows, and memory for the index. Measured on synthetic data
// (docs/sparse_training.md): the exact loss and 2,048 uniform classes reach the same P@1 after the
// same points, and the exact loss takes 1.5 times as long with 2,500 classes, 2.2 times with 5,000,
// 3.6 times with 10,000; so it is the choice where a set would hold all classes. Uniform classes
// reach the same loss in less time than colliding classes, so hashing must be chosen explicitly.
SamplerOptions sampler_options_for(std::size_t classes, std::size_t width, std::size_t memory,
                                   Sampler kind, std::uint64_t seed);
constexpr Sampler sampler_for(std::size_t classes) {
  return classes <= 2048 ? Sampler::full : Sampler::uniform;
}

class ClassSampler {
 public:
  // Errors train.options (an empty set, a set with more classes than there are, no steps between
  // refreshes), and those of ClassIndex.
  ClassSampler(Context& context, std::size_t classes, std::size_t width,
               const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  const std::optional<ClassIndex>& index() const { return index_; }
  void describe(Record& record) const;

  // The wall-clock time of all calls so far, in seconds.
  struct Times {
    double refreshing = 0, choosing = 0;
  };
  const Times& times() const { return times_; }

  // The set of a batch: a pure function of the labels, the seed, the step number and, for
  // lsh_shared, of the queries [B, width] and the rows of `weight` so far. Error data.labels: a
  // label that is no class. Not for lsh_per_sample.
  ClassSet sample(const data::LabelLists& labels, const Tensor& queries, const Tensor& weight,
                  std::uint32_t step);
  // The same for a part of a batch, such as the part of a rank: the set contains all labels of the
  // batch, and the lists hold the labels of the part.
  ClassSet sample(const data::LabelLists& batch, const data::LabelLists& part,
                  const Tensor& queries, const Tensor& weight, std::uint32_t step);

  // A set for each sample: its labels, the classes that collide most with its own query, and
  // classes drawn for it. Errors as of sample(), for the labels of one sample.
  ClassSets sample_each(const data::LabelLists& labels, const Tensor& queries, const Tensor& weight,
                        std::uint32_t step);

  // The state that decides the next sets beside weights, seed and step: the buckets of the rows
  // that have changed since the last refresh. All other rows still hash to their buckets. Empty
  // without an index, or before the index is built.
  StateDict state() const;
  // `weight` must be as it was when state() was called. Errors state.missing_name,
  // state.extra_name, state.shape, state.dtype, operator.value (invalid rows or buckets): nothing
  // changes then.
  void load_state(const StateDict& state, const Tensor& weight);

 private:
  void check_labels(const data::LabelLists& labels) const;
  // The size of a set for this number of different labels.
  std::size_t room_for(std::size_t labels) const;
  static void put_positions(const ClassCandidates& chosen, std::span<const std::int32_t> labels,
                            std::int32_t* positions);
  // The draws of a set: `whose` is 0 for a batch's set, and the sample's number + 1 for a sample's
  // set. The streams lie 2^32 words apart, and no set takes that many.
  DrawSequence draws(std::uint32_t step, std::uint64_t whose) const;
  std::span<ClassCandidates> candidates(std::size_t count);

  // Rows change only if they were in a set.
  void note_changed(std::span<const std::int32_t> ids);
  void forget_changed();
  void refresh(const Tensor& weight, std::uint32_t step);

  Context& context_;
  std::size_t classes_;
  SamplerOptions options_;
  std::optional<ClassIndex> index_;
  std::vector<ClassCandidates> candidates_{};  // one for each thread that chooses
  std::vector<std::int64_t> changed_{};        // since the index was refreshed
  std::vector<std::uint8_t> changed_mark_{};
  Times times_{};
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/class_sampler.ipp>
#endif
