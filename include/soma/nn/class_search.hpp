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

namespace SOMA_NAMESPACE::nn {

// A class and its logit.
struct FoundClass {
  float logit = 0;
  std::int32_t id = 0;
};

// The likeliest classes seen so far, the likeliest first; of equal logits, the smaller id first.
class BestClasses {
 public:
  explicit BestClasses(std::size_t count) : count_(count) {}
  void add(float logit, std::int32_t id);
  const std::vector<FoundClass>& classes() const { return best_; }

 private:
  // Out of line, because few classes come this far.
  void insert(float logit, std::int32_t id);
  static bool before(const FoundClass& a, const FoundClass& b);
  std::size_t count_;
  std::vector<FoundClass> best_{};
  float least_ = -std::numeric_limits<float>::infinity();  // logits below it are not inserted
};

struct ClassSearchOptions {
  ClassIndexOptions index{};
  std::size_t head = 2048;        // classes with the longest rows, candidates of every query
  std::size_t candidates = 4096;  // at most, `head` included
};
void fields(FieldVisitor& visitor, ClassSearchOptions& options);

class ClassSearch {
 public:
  // Searches a weight [classes, width] and a bias [classes, 1] or [classes], fp32. Both stay with
  // the caller and must not change. Construction hashes all rows. Errors operator.value (no
  // candidates), and those of ClassIndex.
  ClassSearch(Context& context, const Tensor& weight, const Tensor& bias,
              const ClassSearchOptions& options = {});

  const ClassIndex& index() const { return index_; }
  const ClassSearchOptions& options() const { return options_; }

  // The likeliest `count` classes among the candidates for a query of `width` numbers; fewer if
  // there are fewer candidates. One thread at a time.
  std::vector<FoundClass> top(const float* query, std::size_t count);
  // The candidates for a query, in no order; valid until the next call.
  std::span<const std::int32_t> candidates_of(const float* query);

 private:
  void find_head();

  Context& context_;
  Tensor weight_, bias_;
  ClassSearchOptions options_;
  ClassIndex index_;
  ClassCandidates candidates_;
  std::vector<std::uint32_t> head_{};
  std::vector<std::uint16_t> buckets_{};
  std::vector<float> logits_{};
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/class_search.ipp>
#endif
