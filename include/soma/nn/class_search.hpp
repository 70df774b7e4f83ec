#pragma once
// ClassSearch: finds the likeliest of very many classes without computing all logits. The
// candidates are the classes with the longest weight rows, which win often if they are frequent,
// and the classes that collide with the query in a hash index, which sees directions and not
// lengths. The logits of candidates are exact. Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/nn/class_candidates.hpp>
#include <soma/nn/class_index.hpp>
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

namespace soma::nn {

// A class and its logit.
struct FoundClass {
  float logit = 0;
  std::int32_t id = 0;
};

// The likeliest classes seen so far, the likeliest first; of equal logits, the smaller id first.
class BestClasses {
 public:
  explicit BestClasses(std::size_t count) : count_(count) {}
  void add(float logit, std::int32_t id) {
    if (!(logit < least_)) insert(logit, id);
  }
  const std::vector<FoundClass>& classes() const { return best_; }

 private:
  // Out of line, because few classes come this far.
  void insert(float logit, std::int32_t id) {
    if (best_.size() == count_ && (count_ == 0 || !before({logit, id}, best_.back()))) return;
    best_.insert(std::upper_bound(best_.begin(), best_.end(), FoundClass{logit, id}, before),
                 {logit, id});
    if (best_.size() > count_) best_.pop_back();
    if (best_.size() == count_) least_ = best_.back().logit;
  }
  static bool before(const FoundClass& a, const FoundClass& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
  std::size_t count_;
  std::vector<FoundClass> best_{};
  float least_ = -std::numeric_limits<float>::infinity();  // logits below it are not inserted
};

struct ClassSearchOptions {
  ClassIndexOptions index{};
  std::size_t head = 2048;        // classes with the longest rows, candidates of every query
  std::size_t candidates = 4096;  // at most, `head` included
};

class ClassSearch {
 public:
  // Searches a weight [classes, width] and a bias [classes, 1] or [classes], fp32. Both stay with
  // the caller and must not change. Construction hashes all rows. Errors operator.value (no
  // candidates), and those of ClassIndex.
  ClassSearch(Context& context, const Tensor& weight, const Tensor& bias,
              const ClassSearchOptions& options = {})
      : context_(context),
        weight_(weight),
        bias_(bias),
        options_(options),
        index_(context, weight.size(0), weight.size(1), options.index),
        candidates_(weight.size(0)) {
    if (options.candidates == 0)
      fail(error_id::operator_value, "ClassSearch", "candidates", "0", "at least 1");
    options_.candidates = (std::min)(options.candidates, weight.size(0));
    options_.head = (std::min)(options.head, options_.candidates);
    index_.rebuild(weight);
    find_head();
  }

  const ClassIndex& index() const { return index_; }
  const ClassSearchOptions& options() const { return options_; }

  // The likeliest `count` classes among the candidates for a query of `width` numbers; fewer if
  // there are fewer candidates. One thread at a time.
  std::vector<FoundClass> top(const float* query, std::size_t count) {
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
  // The candidates for a query, in no order; valid until the next call.
  std::span<const std::int32_t> candidates_of(const float* query) {
    candidates_.begin(options_.candidates);
    for (const std::uint32_t id : head_) candidates_.add(id);
    index_.find_buckets(query, 1, buckets_);
    candidates_.add_colliding(index_, buckets_, 1, 0, 1, 0);
    return candidates_.classes();
  }

 private:
  void find_head() {
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

  Context& context_;
  Tensor weight_, bias_;
  ClassSearchOptions options_;
  ClassIndex index_;
  ClassCandidates candidates_;
  std::vector<std::uint32_t> head_{};
  std::vector<std::uint16_t> buckets_{};
  std::vector<float> logits_{};
};

}  // namespace soma::nn
