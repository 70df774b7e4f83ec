#pragma once
// ClassSampler: which of very many classes a batch is trained against. One set serves the whole
// batch, so that its arithmetic is dense: the batch's labels, and classes that are to be told from
// them. Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/autograd/list_loss.hpp>
#include <soma/base/record.hpp>
#include <soma/data/labels.hpp>
#include <soma/nn/class_index.hpp>
#include <soma/numeric/draw_sequence.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace soma::nn {

enum class Sampler : std::uint8_t {
  full,        // all classes: no set is drawn
  uniform,     // labels, then classes drawn evenly
  lsh_shared,  // labels, then those that collide with most of the batch's queries, then drawn ones
};
inline constexpr std::string_view sampler_names[] = {"full", "uniform", "lsh_shared"};

struct SamplerOptions {
  Sampler kind = Sampler::uniform;
  std::size_t set = 2048;  // classes of a batch
  std::uint64_t seed = 0;
  // Of lsh_shared: steps between refreshes of the index. Until the first of them, when rows are
  // still as they were drawn and tell nothing, the set is drawn evenly.
  std::uint64_t refresh_every = 50;
  ClassIndexOptions index{};
};

// A function of classes, width of the rows, and memory for the index. Measured on synthetic data
// (docs/sparse_training.md): below 20,000 classes the exact loss is as fast; beyond, uniform
// classes reach what colliding ones reach in less time, so hashing has to be asked for.
inline SamplerOptions sampler_options_for(std::size_t classes, std::size_t width,
                                          std::size_t memory, Sampler kind, std::uint64_t seed) {
  SamplerOptions options{.kind = kind, .seed = seed};
  options.set = (std::min)(classes, std::size_t{2048});
  options.index.seed = seed;
  options.index.codes = class_index_codes(classes);
  options.index.tables = 32;
  while (options.index.tables > 1 &&
         class_index_bytes(classes, options.index.tables, options.index.codes) > memory)
    options.index.tables /= 2;
  static_cast<void>(width);
  return options;
}
constexpr Sampler sampler_for(std::size_t classes) {
  return classes <= 20000 ? Sampler::full : Sampler::uniform;
}

class ClassSampler {
 public:
  // Errors train.options (a set of no class, or of more than there are; no steps between
  // refreshes), those of ClassIndex.
  ClassSampler(Context& context, std::size_t classes, std::size_t width,
               const SamplerOptions& options)
      : context_(context), classes_(classes), options_(options) {
    if (options.kind == Sampler::full) return;
    const auto refuse = [](std::string_view name, std::size_t value, std::string_view wanted) {
      fail(error_id::train_options, "ClassSampler", name, std::to_string(value), wanted);
    };
    if (options.set == 0 || options.set > classes)
      refuse("set", options.set, "1 to the number of classes, " + std::to_string(classes));
    place_.assign(classes, none);
    if (options.kind != Sampler::lsh_shared) return;
    if (options.refresh_every == 0) refuse("refresh_every", 0, "at least 1");
    index_.emplace(context, classes, width, options.index);
    hits_.assign(classes, 0);
    changed_mark_.assign(classes, 0);
  }

  const SamplerOptions& options() const { return options_; }
  const std::optional<ClassIndex>& index() const { return index_; }
  void describe(Record& record) const {
    record.set("sampler", sampler_names[static_cast<std::size_t>(options_.kind)]);
    if (options_.kind == Sampler::full) return;
    record.set("sampler.set", options_.set);
    record.set("sampler.seed", options_.seed);
    if (!index_) return;
    record.set("sampler.refresh_every", options_.refresh_every);
    record.set("sampler.tables", index_->tables());
    record.set("sampler.codes", index_->codes());
  }

  // The set of a batch: a function of the labels, the seed, the number of the step and, of
  // lsh_shared, of what the queries [B, width] and the rows of `weight` have been. Error
  // train.options: more different labels than the set has room for; data.labels: one that is no
  // class.
  ClassSet sample(const data::LabelLists& labels, const Tensor& queries, const Tensor& weight,
                  std::uint32_t step) {
    chosen_.clear();
    for (const std::int32_t label : labels.ids.span<std::int32_t>()) {
      if (label < 0 || static_cast<std::size_t>(label) >= classes_)
        fail(error_id::data_labels, "ClassSampler", "label", std::to_string(label),
             "0 to " + std::to_string(classes_) + " - 1");
      choose(static_cast<std::size_t>(label));
    }
    if (chosen_.size() > options_.set)
      fail(
          error_id::train_options, "ClassSampler", "labels of a batch",
          std::to_string(chosen_.size()) + " different ones",
          "at most the set's " + std::to_string(options_.set) + " (a larger set, smaller batches)");
    if (options_.kind == Sampler::lsh_shared) {
      refresh(weight, step);
      if (index_->built()) choose_colliding(queries, step);
    }
    fill(step);
    std::sort(chosen_.begin(), chosen_.end());
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      place_[static_cast<std::size_t>(chosen_[i])] = static_cast<std::int32_t>(i);
    ClassSet set;
    set.classes =
        Tensor::from(context_, std::span<const std::int64_t>(chosen_), Shape{chosen_.size()});
    set.labels.offsets = labels.offsets;
    set.labels.ids = Tensor::empty(context_, labels.ids.shape(), DType::int32);
    const std::span<const std::int32_t> ids = labels.ids.span<std::int32_t>();
    // Places ascend where labels do.
    for (std::size_t i = 0; i < ids.size(); ++i)
      set.labels.ids.mutable_data<std::int32_t>()[i] = place_[static_cast<std::size_t>(ids[i])];
    for (const std::int64_t id : chosen_) {
      place_[static_cast<std::size_t>(id)] = none;
      if (index_ && changed_mark_[static_cast<std::size_t>(id)] == 0) {
        changed_mark_[static_cast<std::size_t>(id)] = 1;
        changed_.push_back(id);
      }
    }
    return set;
  }

 private:
  static constexpr std::int32_t none = -1, taken = 0;

  void choose(std::size_t id) {
    if (place_[id] != none) return;
    place_[id] = taken;
    chosen_.push_back(static_cast<std::int64_t>(id));
  }

  // Rows change where they were in a set, and nowhere else.
  void refresh(const Tensor& weight, std::uint32_t step) {
    if (step == 0 || step % options_.refresh_every != 0) return;
    if (index_->built()) {
      std::sort(changed_.begin(), changed_.end());
      index_->refresh(weight, changed_);
    } else {
      index_->rebuild(weight);
    }
    for (const std::int64_t id : changed_) changed_mark_[static_cast<std::size_t>(id)] = 0;
    changed_.clear();
  }

  // Those with most collisions first; among equals the order is a mixture of number and step.
  void choose_colliding(const Tensor& queries, std::uint32_t step) {
    const std::size_t count = queries.size(0);
    const std::vector<std::uint16_t> buckets = index_->buckets_of(queries);
    found_.clear();
    std::uint16_t most = 0;
    for (std::size_t table = 0; table < index_->tables(); ++table)
      for (std::size_t i = 0; i < count; ++i)
        for (const std::uint32_t id : index_->bucket(table, buckets[table * count + i])) {
          if (hits_[id] == 0) found_.push_back(id);
          if (hits_[id] != 0xFFFF) ++hits_[id];
          most = (std::max)(most, hits_[id]);
        }
    std::vector<std::size_t> with(std::size_t{most} + 1);
    for (const std::uint32_t id : found_) ++with[hits_[id]];
    std::size_t room = options_.set - chosen_.size();
    std::size_t least = most;  // all with more than that have room
    while (least > 0 && with[least] <= room) room -= with[least--];
    equal_.clear();
    for (const std::uint32_t id : found_) {
      if (hits_[id] > least) choose(id);
      if (hits_[id] == least && least != 0) equal_.push_back({mixed(id, step), id});
      hits_[id] = 0;
    }
    std::sort(equal_.begin(), equal_.end());
    for (const auto& [key, id] : equal_)
      if (chosen_.size() < options_.set) choose(id);
  }
  static constexpr std::uint64_t mixed(std::uint64_t id, std::uint64_t step) {
    std::uint64_t x = (id + (step << 32)) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
  }

  void fill(std::uint32_t step) {
    DrawSequence draws({.seed = options_.seed,
                        .stream = stream_id("classes", "sampler"),
                        .step = step,
                        .index = 0});
    while (chosen_.size() < options_.set) choose(draws.below(static_cast<std::uint32_t>(classes_)));
  }

  Context& context_;
  std::size_t classes_;
  SamplerOptions options_;
  std::optional<ClassIndex> index_;
  std::vector<std::int64_t> chosen_, changed_;
  std::vector<std::int32_t> place_;  // of each class in the set
  std::vector<std::uint16_t> hits_;
  std::vector<std::uint8_t> changed_mark_;
  std::vector<std::uint32_t> found_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> equal_;
};

}  // namespace soma::nn
