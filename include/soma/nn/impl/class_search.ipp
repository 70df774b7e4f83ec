#pragma once
// The functions of class_search.hpp.

#include <soma/nn/class_search.hpp>

#include <soma/nn/class_candidates.hpp>
#include <soma/nn/class_index.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/sparse/table.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void BestClasses::add(float logit, std::int32_t id) {
  if (!(logit < least_)) insert(logit, id);
}

SOMA_INLINE void BestClasses::insert(float logit, std::int32_t id) {
  if (best_.size() == count_ && (count_ == 0 || !before({logit, id}, best_.back()))) return;
  best_.insert(std::upper_bound(best_.begin(), best_.end(), FoundClass{logit, id}, before),
               {logit, id});
  if (best_.size() > count_) best_.pop_back();
  if (best_.size() == count_) least_ = best_.back().logit;
}

SOMA_INLINE bool BestClasses::before(const FoundClass& a, const FoundClass& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

SOMA_INLINE void fields(FieldVisitor& visitor, ClassSearchOptions& options) {
  visitor.option("index", options.index);
  visitor.option("head", options.head);
  visitor.option("candidates", options.candidates, NumberRange::at_least(1));
}

SOMA_INLINE ClassSearch::ClassSearch(Context& context, const Tensor& weight, const Tensor& bias,
                                     const ClassSearchOptions& options)
    : context_(context),
      weight_(weight),
      bias_(bias),
      options_(options),
      index_(context, weight.size(0), weight.size(1), options.index),
      candidates_(weight.size(0)) {
  check_ranges("ClassSearch", options);
  options_.candidates = (std::min)(options.candidates, weight.size(0));
  options_.head = (std::min)(options.head, options_.candidates);
  index_.rebuild(weight);
  find_head();
}

SOMA_INLINE std::vector<FoundClass> ClassSearch::top(const float* query, std::size_t count) {
  const FloatEnvironment environment;
  const std::span<const std::int32_t> ids = candidates_of(query);
  logits_.resize(ids.size());
  const std::array<std::size_t, 2> offsets{0, ids.size()};
  sparse_table(context_, "ClassSearch")
      .kernels->bag_dots({.last = 1,
                          .columns = weight_.size(1),
                          .x = query,
                          .table = weight_.data<float>(),
                          .bias = bias_.data<float>(),
                          .ids = ids.data(),
                          .offsets = offsets.data(),
                          .y = logits_.data()});
  BestClasses best(count);
  for (std::size_t i = 0; i < ids.size(); ++i) best.add(logits_[i], ids[i]);
  return best.classes();
}

SOMA_INLINE std::span<const std::int32_t> ClassSearch::candidates_of(const float* query) {
  candidates_.begin(options_.candidates);
  for (const std::uint32_t id : head_) candidates_.add(id);
  index_.find_buckets(query, 1, buckets_);
  candidates_.add_colliding(index_, buckets_, 1, 0, 1, 0);
  return candidates_.classes();
}

SOMA_INLINE void ClassSearch::find_head() {
  const std::size_t classes = weight_.size(0), width = weight_.size(1);
  std::vector<std::pair<float, std::uint32_t>> lengths(classes);
  soma::detail::for_ranges(context_, classes, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const float* numbers = weight_.data<float>() + row * width;
      double squares = 0;
      for (std::size_t i = 0; i < width; ++i)
        squares += static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]);
      // The longest rows first; of equal lengths, the smaller id.
      lengths[row] = {-static_cast<float>(squares), static_cast<std::uint32_t>(row)};
    }
  });
  const auto end = lengths.begin() + static_cast<std::ptrdiff_t>(options_.head);
  std::partial_sort(lengths.begin(), end, lengths.end());
  for (auto at = lengths.begin(); at != end; ++at) head_.push_back(at->second);
}

}  // namespace SOMA_NAMESPACE::nn
