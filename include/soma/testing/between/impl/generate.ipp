#pragma once
// The functions of generate.hpp.

#include <soma/testing/between/generate.hpp>

#include <soma/numeric/codec.hpp>
#include <soma/ops/run.hpp>
#include <soma/tensor/ragged.hpp>
#include <soma/testing/values.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE ReferenceTensor leaf_values(const Leaf& leaf) {
  const std::vector<std::size_t> places = places_of(leaf);
  ReferenceTensor result{shape_of(leaf), {}};
  const double low = leaf.low, high = leaf.high;
  for (std::size_t i = 0; i < places.size(); ++i) {
    double value = 0;
    if (!leaf.values.empty()) {
      value = leaf.values[i % leaf.values.size()];
    } else {
      const double share =
          random_word({.seed = 2024, .stream = leaf.draw, .index = places[i]}) * 0x1p-32;
      value = is_floating(leaf.dtype) ? low + (high - low) * share
                                      : low + std::floor((high - low + 1) * share);
    }
    result.values.push_back(stored(leaf.dtype, value));
  }
  return result;
}

// ---- for rules

SOMA_INLINE std::size_t Maker::size() {
  if (choice_.chance(33)) return 1;
  if (choice_.chance(2)) return 0;
  if (choice_.chance(4)) return 257;
  return choice_.of({2u, 3u, 4u, 5u, 6u, 7u, 8u, 12u, 13u, 17u, 24u, 2u, 3u, 6u});
}

SOMA_INLINE Shape Maker::shape(std::size_t rank) {
  for (;;) {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < rank; ++i)
      sizes.push_back(i > 0 && choice_.chance(15) ? sizes[i - 1] : size());
    // Columns that layers of several gates or heads can read.
    if (rank == 2 && choice_.chance(30)) sizes[1] = choice_.of({12u, 24u, 16u, 9u});
    const Shape shape(sizes);
    if (shape.elements() <= most_elements) return shape;
  }
}

SOMA_INLINE const Known& Maker::known(const Ref& ref) const {
  for (const Known& one : known_)
    if (one.ref == ref) return one;
  fail(error_id::operator_value, "Between", "program", "a reference to nothing", "a result");
}

SOMA_INLINE double Maker::least(const Known& x) const {
  double result = largest_value;
  for (const double value : x.value.values) result = (std::min)(result, value);
  return result;
}

SOMA_INLINE double Maker::greatest(const Known& x) const {
  double result = 0;
  for (const double value : x.value.values) result = (std::max)(result, std::fabs(value));
  return result;
}

SOMA_INLINE void Maker::add_views(Leaf& leaf, bool read_only) {
  if (!choice_.chance(55)) return;
  for (std::size_t steps = 1 + choice_.below(2); steps-- > 0;) {
    const Shape& shape = leaf.base;  // what the views so far begin with
    const std::size_t rank = shape.rank();
    ViewStep step;
    Shape before = shape;
    step.kind =
        choice_.of({ViewStep::Kind::transpose, ViewStep::Kind::slice, ViewStep::Kind::select,
                    ViewStep::Kind::slice, ViewStep::Kind::reshape, ViewStep::Kind::broadcast});
    const std::size_t d = choice_.below(rank);
    std::vector<std::size_t> sizes(shape.begin(), shape.end());
    switch (step.kind) {
      case ViewStep::Kind::transpose:
        if (rank < 2) continue;
        step.a = d;
        step.b = choice_.below(rank);
        before = shape.exchanged(step.a, step.b);
        break;
      case ViewStep::Kind::slice: {
        if (rank == 0) continue;
        const std::size_t length = shape[d];
        step.a = d;
        step.b = choice_.below(4);
        step.d = 1 + choice_.below(3);
        step.c = length == 0 ? step.b : step.b + (length - 1) * step.d + 1;
        before = shape.with(d, step.c + choice_.below(3));
        break;
      }
      case ViewStep::Kind::select: {
        if (rank > 5) continue;
        step.a = choice_.below(rank + 1);
        const std::size_t count = 1 + choice_.below(3);
        step.b = choice_.below(count);
        sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(step.a), count);
        before = Shape(sizes);
        break;
      }
      case ViewStep::Kind::reshape:
        if (steps > 0) continue;  // only of what is row-major: first of all
        step.shape = shape;
        before = choice_.chance(50) ? Shape{shape.elements()} : Shape{1, shape.elements()};
        break;
      case ViewStep::Kind::broadcast:
        if (!read_only || steps > 0 || rank == 0) continue;
        step.shape = shape;
        before = choice_.chance(50) ? shape.with(d, 1) : shape.without(0);
        break;
    }
    // A view may hide elements, but not those of large sizes beside a 0.
    if (before.elements() > 64 * most_elements) continue;
    leaf.views.insert(leaf.views.begin(), step);
    leaf.base = before;
  }
}

SOMA_INLINE Leaf Maker::floating_leaf(const Shape& shape, double low, double high) {
  Leaf leaf{.base = shape, .dtype = type_, .low = low, .high = high};
  if (mixed_ && choice_.chance(30))
    leaf.dtype = choice_.of({DType::fp32, DType::bf16, DType::fp16, DType::bf16});
  leaf.parameter = choice_.chance(60);
  if (mixed_ && !leaf.parameter && choice_.chance(15))
    leaf.dtype = choice_.of({DType::fp8_e4m3, DType::fp8_e5m2, DType::fp8_e4m3fn, DType::tf32});
  leaf.draw = static_cast<std::uint32_t>(known_.size() + 100 * number_);
  add_views(leaf, true);
  return leaf;
}

SOMA_INLINE Ref Maker::add_leaf(Leaf leaf) {
  const Ref ref{.kind = Ref::Kind::leaf, .index = program_.leaves.size()};
  Known known{.ref = ref,
              .dtype = leaf.dtype,
              .gradient = leaf.parameter,
              .lengths = leaf.lengths,
              .value = leaf_values(leaf)};
  known_.push_back(std::move(known));
  program_.leaves.push_back(std::move(leaf));
  return ref;
}

SOMA_INLINE Ref Maker::leaf(const Shape& shape, double low, double high, bool constant) {
  Leaf leaf = floating_leaf(shape, low, high);
  if (constant) leaf.parameter = false;
  return add_leaf(std::move(leaf));
}

SOMA_INLINE Ref Maker::whole_numbers(const Shape& shape, DType dtype, double low, double high) {
  Leaf leaf{.base = shape,
            .dtype = dtype,
            .low = low,
            .high = high,
            .draw = static_cast<std::uint32_t>(known_.size() + 100 * number_)};
  add_views(leaf, true);
  return add_leaf(std::move(leaf));
}

SOMA_INLINE Ref Maker::listed(const Shape& shape, DType dtype, std::vector<double> values) {
  Leaf leaf{.base = shape, .dtype = dtype, .values = std::move(values)};
  add_views(leaf, false);
  return add_leaf(std::move(leaf));
}

SOMA_INLINE Ref Maker::like(const Shape& shape) {
  if (choice_.chance(70))
    for (std::size_t tries = known_.size(), at = choice_.below(known_.size()); tries-- > 0; ++at)
      if (const Known& one = known_[at % known_.size()];
          one.shape() == shape && is_floating(one.dtype))
        return one.ref;
  return leaf(shape);
}

SOMA_INLINE bool Maker::sequences(const Known& x, Call& call) {
  if (x.shape().rank() == 0) return false;
  std::size_t rows = 0;
  for (const std::size_t length : x.lengths) rows += length;
  if (!x.lengths.empty() && rows == x.shape()[0]) {
    call.lengths = x.lengths;
    return true;
  }
  std::size_t left = x.shape()[0];
  while (left > 0 || call.lengths.empty()) {
    const std::size_t most = (std::min)(left, std::size_t{7});
    const std::size_t length = choice_.chance(15) ? 0 : 1 + choice_.below(most);
    call.lengths.push_back((std::min)(length, left));
    left -= call.lengths.back();
  }
  return true;
}

// ---- calls

SOMA_INLINE bool Maker::supports(DType dtype, double value) const {
  if (!is_floating(dtype)) return true;
  const FloatFormat& format = format_of(dtype);
  return value < 0.4 * static_cast<double>(decode(format, format.max_finite_code()));
}

SOMA_INLINE bool Maker::accepts(const Entry& entry, const Call& call,
                                const std::vector<std::size_t>& lengths,
                                std::vector<DType>& types) const {
  const DType first = known(call.inputs[0]).dtype;
  if (entry.op == nullptr) {
    types.assign(1, entry.name == "tape::kl_div_batch_mean" ? DType::fp32 : first);
    return entry.name != "tape::stack" ||
           std::all_of(call.inputs.begin(), call.inputs.end(),
                       [&](const Ref& input) { return known(input).dtype == first; });
  }
  std::vector<Tensor> inputs;
  for (const Ref& input : call.inputs)
    inputs.push_back(input.kind == Ref::Kind::none
                         ? Tensor()
                         : Tensor::empty(scratch_, known(input).shape(), known(input).dtype));
  const auto ask = [&] {
    Sequences sequences;
    if (!lengths.empty()) sequences = Sequences::from_lengths(scratch_, lengths);
    const auto specs = soma::detail::output_specs(*entry.op, call.attributes, inputs, sequences);
    for (std::size_t i = 0; i < entry.op->outputs; ++i)
      types.push_back(entry.op->makes_outputs() ? first : specs[i].dtype);
  };
#if SOMA_HAS_EXCEPTIONS
  try {
    ask();
  } catch (const Error&) {
    return false;
  }
#else
  ask();
#endif
  return true;
}

SOMA_INLINE bool Maker::finish(const Entry& entry, Call call) {
  std::vector<ReferenceTensor> inputs;
  std::vector<std::size_t> lengths, read;
  bool gradient = false;
  if (!call.lengths.empty()) {
    for (Known& one : known_)
      if (one.ref == call.inputs[0]) one.lengths = call.lengths;
  }
  for (const Ref& input : call.inputs) {
    if (input.kind == Ref::Kind::none) {
      inputs.push_back({.shape = {}, .values = {}, .defined = false});
      continue;
    }
    const Known& one = known(input);
    inputs.push_back(one.value);
    gradient = gradient || (one.gradient && is_floating(one.dtype));
    if (lengths.empty()) lengths = one.lengths;
    // The reference is told as much in the run (Running::calls).
    if (read.empty() && (one.shape().rank() > 1 || !call.lengths.empty())) read = one.lengths;
  }
  if (entry.op != nullptr && !entry.differentiable && gradient) return false;
  std::vector<DType> types;
  if (!accepts(entry, call, lengths, types)) return false;
  std::vector<ReferenceTensor> outputs = entry.reference(call.attributes, read, inputs);
  for (std::size_t i = 0; i < outputs.size() && i < types.size(); ++i) {
    if (outputs[i].shape.elements() > 2 * most_elements) return false;
    for (double& value : outputs[i].values) {
      if (!(std::fabs(value) < largest_value) || !supports(types[i], std::fabs(value)))
        return false;
      value = stored(types[i], value);
    }
  }
  std::size_t rows = 0;
  for (const std::size_t length : lengths) rows += length;
  for (std::size_t i = 0; i < outputs.size() && i < types.size(); ++i) {
    const bool rows_stay = !lengths.empty() && outputs[i].shape.rank() > 0 &&
                           outputs[i].shape[0] == rows && entry.op != nullptr;
    known_.push_back({.ref = {.kind = Ref::Kind::call, .index = program_.calls.size(), .output = i},
                      .dtype = types[i],
                      .gradient = gradient && entry.differentiable && is_floating(types[i]),
                      .lengths = rows_stay ? lengths : std::vector<std::size_t>(),
                      .value = std::move(outputs[i])});
  }
  program_.calls.push_back(std::move(call));
  return true;
}

// The first input takes the place of one of a sample's; the sample gives the others.
SOMA_INLINE bool Maker::by_samples(const Entry& entry, const Known& x, Call& call) {
  const std::vector<Sample>& samples = entry.samples.samples;
  call.sample = choice_.below(samples.size());
  const Sample& sample = samples[call.sample];
  call.attributes = sample.attributes;
  call.lengths = sample.lengths;
  const Ref own = call.inputs[0];
  call.inputs.clear();
  bool used = false;
  for (const SampleInput& input : sample.inputs) {
    if (input.left_out) {
      call.inputs.emplace_back();
    } else if (!used && is_floating(input.dtype) && input.values.empty() &&
               input.shape == x.shape() && least(x) >= input.low && greatest(x) <= input.high) {
      call.inputs.push_back(own);
      used = true;
    } else {
      Leaf leaf{.base = input.shape,
                .dtype = input.dtype,
                .parameter = is_floating(input.dtype) && input.differentiable,
                .low = input.low,
                .high = input.high,
                .draw = static_cast<std::uint32_t>(known_.size() + 100 * number_),
                .values = input.values};
      add_views(leaf, false);
      call.inputs.push_back(add_leaf(std::move(leaf)));
    }
  }
  return true;
}

SOMA_INLINE bool Maker::add_call(const Entry& entry, const Known& of) {
  const Known x = of;  // new leaves move what is known
  const std::size_t leaves = program_.leaves.size(), results = known_.size();
  const std::vector<Known> before = known_;
  Call call{.name = entry.name, .inputs = {x.ref}};
  call.attributes = entry.samples.samples[0].attributes;
  if (is_floating(x.dtype) && !mixed_) type_ = x.dtype;
  const Rule rule = rule_of(entry.name);
  const bool fits = rule != nullptr
                        ? (ranks_of(entry.name) >> x.shape().rank() & 1) != 0 &&
                              (is_floating(x.dtype) || entry.name == "cast") && rule(*this, x, call)
                        : by_samples(entry, x, call);
  if (fits && finish(entry, std::move(call))) return true;
  program_.leaves.resize(leaves);
  known_ = before;
  known_.resize(results);
  return false;
}

SOMA_INLINE Ref Maker::start(const Entry& first) {
  std::size_t rank = choice_.below(6);
  while ((ranks_of(first.name) >> rank & 1) == 0) rank = choice_.below(6);
  const double low = sign_ > 0 ? 0.125 : -1.5, high = sign_ < 0 ? -0.125 : 1.5;
  Leaf leaf = floating_leaf(shape(rank), low, high);
  if (!first.differentiable && first.op != nullptr) leaf.parameter = false;
  if (rank > 0 && choice_.chance(25)) {
    Call lengths;
    Known x{.value = {.shape = shape_of(leaf), .values = {}}};
    if (sequences(x, lengths)) leaf.lengths = lengths.lengths;
  }
  return add_leaf(std::move(leaf));
}

// The second operator reads a result of the first.
SOMA_INLINE bool Maker::pair(const Entry& first, const Entry& second) {
  const auto continues = [&] {
    const std::size_t index = program_.calls.size() - 1;
    for (std::size_t i = known_.size(); i-- > 0;)
      if (known_[i].ref.kind == Ref::Kind::call && known_[i].ref.index == index &&
          add_call(second, Known(known_[i])))
        return true;
    return false;
  };
  if (!program_.calls.empty() && program_.calls.back().name == first.name && continues())
    return true;
  const std::vector<Known> known_before = known_;
  const Program before = program_;
  for (int tries = 0; tries < 400; ++tries) {
    sign_ = static_cast<int>(choice_.below(4)) - 1;  // 2: as 1
    const Ref x = start(first);
    if (add_call(first, Known(known(x))) && continues()) return true;
    known_ = known_before;
    program_ = before;
  }
  return false;
}

SOMA_INLINE void Maker::spine() {
  const std::size_t count = book_.entries().size();
  // Neighbouring parts of the walk have the same symbol; a stride (a prime) mixes them.
  const std::uint64_t parts = (std::uint64_t{count} * count + 3) / 4;
  const std::uint64_t begin = (seed_ * 31 + std::uint64_t{number_} * 7919) % parts * 4;
  for (std::uint64_t i = 0; i < 4 && program_.calls.size() + 2 < most_calls; ++i)
    pair(book_.entries()[pair_walk(count, begin + i)],
         book_.entries()[pair_walk(count, begin + i + 1)]);
}

SOMA_INLINE void Maker::choose_result() {
  std::vector<const Known*> fit;
  for (const Known& one : known_)
    if (one.ref.kind == Ref::Kind::call && one.gradient && one.shape().elements() > 0)
      fit.push_back(&one);
  if (fit.empty()) return;
  const Known& result = *(choice_.chance(70) ? fit.back() : fit[choice_.below(fit.size())]);
  program_.result = result.ref;
  program_.given = {.base = result.shape(),
                    .dtype = choice_.chance(60)
                                 ? result.dtype
                                 : choice_.of({DType::fp32, DType::bf16, DType::fp16}),
                    .draw = static_cast<std::uint32_t>(77 + 100 * number_)};
  add_views(program_.given, true);
}

SOMA_INLINE void Maker::choose_places() {
  const auto add = [&](std::string place) {
    if (std::find(program_.where.begin(), program_.where.end(), place) == program_.where.end())
      program_.where.push_back(std::move(place));
  };
  for (int i = 0; i < 4; ++i)
    add(choice_.of({"again", "row_major", "threads2", "threads3", "threads7", "backwards", "fills",
                    "recompute", "portable", "together"}));
  for (const std::string& place : places_)
    if (choice_.chance(100 / static_cast<unsigned>(places_.size()) + 5)) add(place);
}

SOMA_INLINE Made Maker::make() {
  mixed_ = choice_.chance(50);
  if (mixed_) type_ = choice_.of({DType::fp32, DType::bf16, DType::fp16, DType::bf16});
  spine();
  // A few more, on any result: parts that are shared, residuals, results that nobody uses.
  for (std::size_t i = choice_.below(4); i-- > 0 && program_.calls.size() < most_calls;) {
    if (known_.empty()) break;
    const Known x = known_[choice_.below(known_.size())];
    add_call(book_.entries()[choice_.below(book_.entries().size())], x);
  }
  choose_result();
  choose_places();
  return {std::move(program_), std::move(known_)};
}

}  // namespace SOMA_NAMESPACE::testing::detail
