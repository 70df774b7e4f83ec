#pragma once
// The functions of reduce.hpp.

#include <soma/testing/between/reduce.hpp>

#include <soma/testing/between/generate.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE void replace(Program& program, const Ref& from, const Ref& to) {
  for (Call& call : program.calls)
    for (Ref& input : call.inputs)
      if (input == from) input = to;
}

SOMA_INLINE bool is_read(const Program& program, Ref::Kind kind, std::size_t index) {
  const auto is = [&](const Ref& ref) { return ref.kind == kind && ref.index == index; };
  if (is(program.result)) return true;
  for (const Call& call : program.calls)
    for (const Ref& input : call.inputs)
      if (is(input)) return true;
  return false;
}

SOMA_INLINE void leave_out(Program& program, Ref::Kind kind, std::size_t index) {
  const auto shift = [&](Ref& ref) {
    if (ref.kind == kind && ref.index > index) --ref.index;
  };
  if (kind == Ref::Kind::call)
    program.calls.erase(program.calls.begin() + static_cast<std::ptrdiff_t>(index));
  else
    program.leaves.erase(program.leaves.begin() + static_cast<std::ptrdiff_t>(index));
  shift(program.result);
  for (Call& call : program.calls)
    for (Ref& input : call.inputs) shift(input);
}

SOMA_INLINE void leave_out_unread_leaves(Program& program) {
  for (std::size_t i = program.leaves.size(); i-- > 0;)
    if (!is_read(program, Ref::Kind::leaf, i)) leave_out(program, Ref::Kind::leaf, i);
}

class Reducer {
 public:
  Reducer(Checks& checks, Program program, const std::string& kind)
      : checks_(checks),
        program_(std::move(program)),
        kind_(kind),
        end_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<Clock::duration>(
                 std::chrono::duration<double>(reduction_seconds))) {}

  Program run() {
    places();
    for (bool smaller = true; smaller && !late();) {
      smaller = false;
      smaller = calls() || smaller;
      smaller = results() || smaller;
      smaller = leaves() || smaller;
      smaller = sizes() || smaller;
    }
    return program_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool late() const { return Clock::now() > end_; }

  bool fails(Program candidate) {
    if (late()) return false;
    leave_out_unread_leaves(candidate);
    if (to_string(candidate) == to_string(program_)) return false;
    bool same = false;
#if SOMA_HAS_EXCEPTIONS
    try {  // a candidate may be no program: views of a shape that has changed
      same = checks_.check(candidate).kind == kind_;
    } catch (const Error&) {
    }
#else
    same = checks_.check(candidate).kind == kind_;
#endif
    if (same) program_ = std::move(candidate);
    return same;
  }

  void places() {
    for (std::size_t i = program_.where.size(); i-- > 0;) {
      Program candidate = program_;
      candidate.where.erase(candidate.where.begin() + static_cast<std::ptrdiff_t>(i));
      fails(std::move(candidate));
    }
  }

  // The program up to a call, the call left out, passed over, or replaced by a leaf.
  bool calls() {
    bool smaller = false;
    for (std::size_t i = program_.calls.size(); i-- > 0 && !late();) {
      if (i >= program_.calls.size()) continue;
      if (!is_read(program_, Ref::Kind::call, i)) {
        Program candidate = program_;
        leave_out(candidate, Ref::Kind::call, i);
        smaller = fails(std::move(candidate)) || smaller;
        continue;
      }
      bool done = false;
      for (const Ref& input : std::vector<Ref>(program_.calls[i].inputs)) {
        if (input.kind == Ref::Kind::none || done) continue;
        Program candidate = program_;
        replace(candidate, {.kind = Ref::Kind::call, .index = i}, input);
        if (is_read(candidate, Ref::Kind::call, i)) continue;
        leave_out(candidate, Ref::Kind::call, i);
        done = fails(std::move(candidate));
      }
      smaller = done || smaller;
      if (!done) smaller = leaf_for(i) || smaller;
    }
    return smaller;
  }

  bool leaf_for(std::size_t which) {
    const Outcome outcome = checks_.plain(program_);
    if (which >= outcome.results.size() || which + 1 == program_.calls.size()) return false;
    Program candidate = program_;
    for (std::size_t j = 0; j < outcome.results[which].size(); ++j) {
      const Bits& bits = outcome.results[which][j];
      const ReferenceTensor values = values_of(bits);
      Leaf leaf{.base = bits.shape,
                .dtype = bits.dtype,
                .parameter = is_floating(bits.dtype),
                .low = 0,
                .high = 1,
                .draw = static_cast<std::uint32_t>(candidate.leaves.size())};
      if (!values.values.empty()) {
        leaf.low = *std::min_element(values.values.begin(), values.values.end());
        leaf.high = *std::max_element(values.values.begin(), values.values.end());
      }
      const Ref ref{.kind = Ref::Kind::leaf, .index = candidate.leaves.size()};
      candidate.leaves.push_back(leaf);
      replace(candidate, {.kind = Ref::Kind::call, .index = which, .output = j}, ref);
    }
    if (is_read(candidate, Ref::Kind::call, which)) return false;
    leave_out(candidate, Ref::Kind::call, which);
    return fails(std::move(candidate));
  }

  // An earlier call as the result, without views of its gradient; nothing to differentiate.
  bool results() {
    bool smaller = false;
    if (program_.result.kind == Ref::Kind::none) return false;
    Program without = program_;
    without.result = {};
    if (fails(std::move(without))) return true;
    const Outcome outcome = checks_.plain(program_);
    for (std::size_t i = 0; i < program_.result.index && i < outcome.results.size(); ++i)
      for (std::size_t j = 0; j < outcome.results[i].size(); ++j) {
        Program candidate = program_;
        candidate.result = {.kind = Ref::Kind::call, .index = i, .output = j};
        candidate.given.base = outcome.results[i][j].shape;
        candidate.given.views.clear();
        candidate.calls.resize(i + 1);
        if (fails(std::move(candidate))) return true;
      }
    Program candidate = program_;
    candidate.given.base = shape_of(candidate.given);
    candidate.given.views.clear();
    smaller = fails(candidate);
    candidate = program_;
    candidate.given.dtype = DType::fp32;
    return fails(candidate) || smaller;
  }

  bool leaves() {
    bool smaller = false;
    const auto change = [&](std::size_t i, auto&& how) {
      if (i >= program_.leaves.size()) return;
      Program candidate = program_;
      how(candidate.leaves[i]);
      smaller = fails(std::move(candidate)) || smaller;
    };
    for (std::size_t i = program_.leaves.size(); i-- > 0;) {
      change(i, [](Leaf& leaf) {
        leaf.base = shape_of(leaf);
        leaf.views.clear();
      });
      for (std::size_t v = i < program_.leaves.size() ? program_.leaves[i].views.size() : 0;
           v-- > 0;)
        change(i, [v](Leaf& leaf) {
          if (v >= leaf.views.size()) return;
          // The last views stay; the base is what the view that is left out makes of it.
          Leaf first = leaf;
          first.views.resize(v + 1);
          leaf.base = shape_of(first);
          leaf.views.erase(leaf.views.begin(),
                           leaf.views.begin() + static_cast<std::ptrdiff_t>(v) + 1);
        });
      change(i, [](Leaf& leaf) { leaf.parameter = false; });
      change(i, [](Leaf& leaf) { leaf.lengths.clear(); });
      change(i, [](Leaf& leaf) {
        if (is_floating(leaf.dtype)) leaf.dtype = DType::fp32;
      });
    }
    for (std::size_t i = 0; i < program_.calls.size(); ++i)
      for (std::size_t j = program_.calls[i].inputs.size(); j-- > 1;) {
        Program candidate = program_;
        candidate.calls[i].inputs[j] = {};
        smaller = fails(std::move(candidate)) || smaller;
      }
    return smaller;
  }

  // One size wherever it stands in a leaf or in settings of shapes.
  bool sizes() {
    bool smaller = false;
    std::set<std::size_t, std::greater<>> all;
    for (const Leaf& leaf : program_.leaves) all.insert(leaf.base.begin(), leaf.base.end());
    for (const std::size_t size : all)
      for (const std::size_t less : {std::size_t{1}, std::size_t{2}, std::size_t{3}, size / 2}) {
        if (less >= size || late()) continue;
        Program candidate = program_;
        const auto change = [&](Shape& shape) {
          for (std::size_t d = 0; d < shape.rank(); ++d)
            if (shape[d] == size) shape = shape.with(d, less);
        };
        const auto change_leaf = [&](Leaf& leaf) {
          change(leaf.base);
          for (ViewStep& step : leaf.views) {
            change(step.shape);
            if (leaf.values.size() == size) leaf.values.resize(less);
          }
        };
        for (Leaf& leaf : candidate.leaves) change_leaf(leaf);
        change_leaf(candidate.given);
        if (fails(std::move(candidate))) {
          smaller = true;
          break;
        }
      }
    return smaller;
  }

  Checks& checks_;
  Program program_;
  const std::string kind_;
  Clock::time_point end_;
};

SOMA_INLINE Program reduce(Checks& checks, Program program, const std::string& kind) {
  return Reducer(checks, std::move(program), kind).run();
}

}  // namespace SOMA_NAMESPACE::testing::detail
