#pragma once
// The functions of class_sampler.hpp.

#include <soma/nn/class_sampler.hpp>

#include <soma/autograd/list_loss.hpp>
#include <soma/base/record.hpp>
#include <soma/data/labels.hpp>
#include <soma/nn/class_candidates.hpp>
#include <soma/nn/class_index.hpp>
#include <soma/numeric/draw_sequence.hpp>
#include <soma/ops/fields.hpp>
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

SOMA_INLINE SamplerOptions sampler_options_for(std::size_t classes, std::size_t width,
                                               std::size_t memory, Sampler kind,
                                               std::uint64_t seed) {
  SamplerOptions options{.kind = kind, .seed = seed};
  // A batch of 256 with 256 classes a sample touches about as many rows as one shared set
  // multiplies.
  options.set = (std::min)(classes, std::size_t{kind == Sampler::lsh_per_sample ? 256u : 2048u});
  options.index.seed = seed;
  options.index.codes = class_index_codes(classes);
  options.index.tables = 32;
  while (options.index.tables > 1 &&
         class_index_bytes(classes, options.index.tables, options.index.codes) > memory)
    options.index.tables /= 2;
  static_cast<void>(width);
  return options;
}

SOMA_INLINE void fields(FieldVisitor& visitor, SamplerOptions& options) {
  visitor.option("set", options.set, NumberRange::at_least(1));
  visitor.option("seed", options.seed);
  visitor.option("refresh_every", options.refresh_every, NumberRange::at_least(1));
  visitor.option("index", options.index);
}

SOMA_INLINE ClassSampler::ClassSampler(Context& context, std::size_t classes, std::size_t width,
                                       const SamplerOptions& options)
    : context_(context), classes_(classes), options_(options) {
  if (options.kind == Sampler::full) return;
  const auto refuse = [](std::string_view name, std::size_t value, std::string_view wanted) {
    fail(error_id::train_options, "ClassSampler", name, std::to_string(value), wanted);
  };
  check_ranges("ClassSampler", options, error_id::train_options);
  if (options.set > classes)
    refuse("set", options.set, "1 to the number of classes, " + std::to_string(classes));
  if (!uses_index(options.kind)) return;
  index_.emplace(context, classes, width, options.index);
  changed_mark_.assign(classes, 0);
}

SOMA_INLINE void ClassSampler::describe(Record& record) const {
  record.set("sampler", sampler_names[static_cast<std::size_t>(options_.kind)]);
  if (options_.kind == Sampler::full) return;
  record.set("sampler.set", options_.set);
  record.set("sampler.seed", options_.seed);
  if (!index_) return;
  record.set("sampler.refresh_every", options_.refresh_every);
  record.set("sampler.tables", index_->tables());
  record.set("sampler.codes", index_->codes());
  record.set("sampler.hash_version", ClassIndex::version);
}

SOMA_INLINE ClassSet ClassSampler::sample(const data::LabelLists& labels, const Tensor& queries,
                                          const Tensor& weight, std::uint32_t step) {
  return sample(labels, labels, queries, weight, step);
}

SOMA_INLINE ClassSet ClassSampler::sample(const data::LabelLists& batch,
                                          const data::LabelLists& part, const Tensor& queries,
                                          const Tensor& weight, std::uint32_t step) {
  check_labels(batch);
  if (options_.kind == Sampler::lsh_shared) refresh(weight, step);
  const std::int64_t start = monotonic_nanoseconds();
  ClassCandidates& chosen = candidates(1).front();
  chosen.begin(options_.set);
  for (const std::int32_t label : batch.ids.span<std::int32_t>())
    chosen.add(static_cast<std::size_t>(label));
  chosen.widen(room_for(chosen.size()));
  if (options_.kind == Sampler::lsh_shared && index_->built()) {
    chosen.add_colliding(context_, *index_, index_->buckets_of(queries), queries.size(0), step);
  }
  chosen.fill(draws(step, 0));
  const std::span<const std::int32_t> ids = chosen.ascending();
  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  ClassSet set;
  set.classes = Tensor::from(context_, std::span<const std::int64_t>(wide), Shape{wide.size()});
  set.labels.offsets = part.offsets;
  set.labels.ids = Tensor::empty(context_, part.ids.shape(), DType::int32);
  put_positions(chosen, part.ids.span<std::int32_t>(), set.labels.ids.mutable_data<std::int32_t>());
  note_changed(ids);
  times_.choosing += static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
  return set;
}

SOMA_INLINE ClassSets ClassSampler::sample_each(const data::LabelLists& labels,
                                                const Tensor& queries, const Tensor& weight,
                                                std::uint32_t step) {
  check_labels(labels);
  refresh(weight, step);
  const std::int64_t start = monotonic_nanoseconds();
  const std::size_t points = labels.count();
  const std::vector<std::uint16_t> buckets =
      index_->built() ? index_->buckets_of(queries) : std::vector<std::uint16_t>();
  ClassSets sets;
  std::vector<std::size_t> lengths, begins{0};
  for (std::size_t i = 0; i < points; ++i) {
    lengths.push_back(room_for(labels.list(i).size()));
    begins.push_back(begins.back() + lengths.back());
  }
  sets.classes.sequences = Sequences::from_lengths(context_, lengths);
  sets.classes.rows = Tensor::empty(context_, Shape{begins.back()}, DType::int32);
  sets.labels.offsets = labels.offsets;
  sets.labels.ids = Tensor::empty(context_, labels.ids.shape(), DType::int32);
  auto* ids = sets.classes.rows.mutable_data<std::int32_t>();
  auto* positions = sets.labels.ids.mutable_data<std::int32_t>();
  const std::span<const std::int64_t> offsets = labels.offsets.span<std::int64_t>();
  const std::size_t tasks = soma::detail::worthwhile_tasks(context_, points, begins.back() * 32,
                                                           soma::detail::operations_worth_a_task);
  const std::span<ClassCandidates> chosen = candidates(tasks);
  parallel(context_, static_cast<int>(tasks), [&](int number) {
    const auto task = static_cast<std::size_t>(number);
    ClassCandidates& own = chosen[task];
    for (std::size_t i = soma::detail::even_border(points, tasks, task);
         i < soma::detail::even_border(points, tasks, task + 1); ++i) {
      own.begin(lengths[i]);
      for (const std::int32_t label : labels.list(i)) own.add(static_cast<std::size_t>(label));
      if (index_->built()) own.add_colliding(*index_, buckets, points, i, i + 1, step);
      own.fill(draws(step, i + 1));
      const std::span<const std::int32_t> set = own.ascending();
      std::copy(set.begin(), set.end(), ids + begins[i]);
      put_positions(own, labels.list(i), positions + offsets[i]);
    }
  });
  note_changed(sets.classes.rows.span<std::int32_t>());
  times_.choosing += static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
  return sets;
}

SOMA_INLINE StateDict ClassSampler::state() const {
  StateDict state;
  if (!index_ || !index_->built()) return state;
  std::vector<std::int64_t> rows = changed_;
  std::sort(rows.begin(), rows.end());
  state.set("sampler.rows",
            Tensor::from(context_, std::span<const std::int64_t>(rows), Shape{rows.size()}));
  state.set("sampler.buckets", index_->buckets_of_rows(rows));
  return state;
}

SOMA_INLINE void ClassSampler::load_state(const StateDict& state, const Tensor& weight) {
  const bool built = index_ && !state.empty();
  if (state.size() != (built ? 2u : 0u))
    fail(error_id::extra_name, "ClassSampler::load_state", "state",
         std::to_string(state.size()) + " entries",
         built ? "\"sampler.rows\" and \"sampler.buckets\"" : "none: this sampler has no index");
  if (!index_) return;
  std::vector<std::int64_t> rows;
  if (built) {
    const Tensor& ids = state.at("sampler.rows");
    if (ids.dtype() != DType::int64)
      fail(error_id::state_dtype, "ClassSampler::load_state", "sampler.rows", ids.describe(),
           "int64");
    index_->restore(weight, ids, state.at("sampler.buckets"));
    const std::span<const std::int64_t> all = ids.span<std::int64_t>();
    rows.assign(all.begin(), all.end());
  } else {
    index_->clear();
  }
  forget_changed();
  changed_ = std::move(rows);
  for (const std::int64_t id : changed_) changed_mark_[static_cast<std::size_t>(id)] = 1;
}

SOMA_INLINE void ClassSampler::check_labels(const data::LabelLists& labels) const {
  for (const std::int32_t label : labels.ids.span<std::int32_t>())
    if (label < 0 || static_cast<std::size_t>(label) >= classes_)
      fail(error_id::data_labels, "ClassSampler", "label", std::to_string(label),
           "0 to " + std::to_string(classes_) + " - 1");
}

SOMA_INLINE std::size_t ClassSampler::room_for(std::size_t labels) const {
  if (labels <= options_.set) return options_.set;
  return (std::min)(classes_, labels + options_.set / 2);
}

SOMA_INLINE void ClassSampler::put_positions(const ClassCandidates& chosen,
                                             std::span<const std::int32_t> labels,
                                             std::int32_t* positions) {
  // Positions ascend with labels.
  for (const std::int32_t label : labels)
    *positions++ = chosen.position(static_cast<std::size_t>(label));
}

SOMA_INLINE DrawSequence ClassSampler::draws(std::uint32_t step, std::uint64_t whose) const {
  return DrawSequence({.seed = options_.seed,
                       .stream = stream_id("classes", "sampler"),
                       .step = step,
                       .index = whose << 32});
}

SOMA_INLINE std::span<ClassCandidates> ClassSampler::candidates(std::size_t count) {
  while (candidates_.size() < count) candidates_.emplace_back(classes_);
  return std::span(candidates_).first(count);
}

SOMA_INLINE void ClassSampler::note_changed(std::span<const std::int32_t> ids) {
  if (!index_) return;
  for (const std::int32_t id : ids) {
    if (changed_mark_[static_cast<std::size_t>(id)] != 0) continue;
    changed_mark_[static_cast<std::size_t>(id)] = 1;
    changed_.push_back(id);
  }
}

SOMA_INLINE void ClassSampler::forget_changed() {
  for (const std::int64_t id : changed_) changed_mark_[static_cast<std::size_t>(id)] = 0;
  changed_.clear();
}

SOMA_INLINE void ClassSampler::refresh(const Tensor& weight, std::uint32_t step) {
  if (step == 0 || step % options_.refresh_every != 0) return;
  const std::int64_t start = monotonic_nanoseconds();
  if (index_->built()) {
    std::sort(changed_.begin(), changed_.end());
    index_->refresh(weight, changed_);
  } else {
    index_->rebuild(weight);
  }
  forget_changed();
  times_.refreshing += static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
}

}  // namespace SOMA_NAMESPACE::nn
