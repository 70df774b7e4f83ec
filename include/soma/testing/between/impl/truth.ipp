#pragma once
// The functions of truth.hpp.

#include <soma/testing/between/truth.hpp>

#include <soma/numeric/codec.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/testing/between/generate.hpp>
#include <soma/testing/values.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

inline constexpr double fp32_error = 2e-5;  // of the largest element
inline constexpr std::uint32_t noises = 2;  // runs that measure how far roundings carry
// As many where a result seems wrong. Of two equal numbers the other one becomes the larger in one
// of four runs, and a rounding to the other neighbour may be as rare.
inline constexpr std::uint32_t most_noises = 64;
inline constexpr double step_size = 0x1p-16;  // of differences

SOMA_INLINE Truth::Truth(const OperatorBook& book, const Program& program, const Outcome& run)
    : book_(book), program_(program), run_(run), needed_(program.calls.size(), false) {
  for (const Call& call : program.calls) entries_.push_back(&book_.at(call.name));
  for (const Leaf& leaf : program.leaves) leaves_.push_back(leaf_values(leaf));
  settle();
  mark_needed(program.result);
  if (program.result.kind == Ref::Kind::none) return;
  seed_ = leaf_values(program.given).values;
  for (const double value : seed_) greatest_seed_ = (std::max)(greatest_seed_, std::fabs(value));
  for (const Leaf& leaf : program.leaves)
    coarsest_ = (std::max)(coarsest_, rounding_of(leaf.dtype));
  for (std::size_t i = 0; i < needed_.size(); ++i)
    for (std::size_t j = 0; needed_[i] && j < base_[i].size(); ++j)
      coarsest_ = (std::max)(coarsest_, rounding_of(run.results[i][j].dtype));
}

SOMA_INLINE void Truth::mark_needed(const Ref& ref) {
  if (ref.kind != Ref::Kind::call || needed_[ref.index]) return;
  needed_[ref.index] = true;
  for (const Ref& input : program_.calls[ref.index].inputs) mark_needed(input);
}

SOMA_INLINE void Truth::move(ReferenceTensor& tensor, DType dtype, std::uint32_t noise,
                             std::size_t which) const {
  if (noise == 0 || !is_floating(dtype)) return;
  const FloatFormat& format = format_of(dtype);
  const double unit = rounding_of(dtype);
  const double least = std::ldexp(1.0, -format.bias - format.mantissa_bits);
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const bool up =
        (random_word(
             {.seed = 9, .stream = noise, .step = static_cast<std::uint32_t>(which), .index = i}) &
         1u) != 0;
    const double by = (std::max)(std::fabs(tensor.values[i]) * unit, least);
    tensor.values[i] *= 1 + (up ? unit : -unit);
    if (by == least) tensor.values[i] += up ? least : -least;
  }
}

SOMA_INLINE std::vector<ReferenceTensor> Truth::call(std::size_t which,
                                                     const std::vector<ReferenceTensor>& leaves,
                                                     const Values& before) const {
  std::vector<ReferenceTensor> inputs;
  for (const Ref& ref : program_.calls[which].inputs)
    inputs.push_back(ref.kind == Ref::Kind::none
                         ? ReferenceTensor{.shape = {}, .values = {}, .defined = false}
                     : ref.kind == Ref::Kind::leaf ? leaves[ref.index]
                                                   : before[ref.index][ref.output]);
  std::vector<ReferenceTensor> results =
      entries_[which]->reference(program_.calls[which].attributes, run_.lengths[which], inputs);
  if (results.size() > run_.results[which].size()) results.resize(run_.results[which].size());
  return results;
}

SOMA_INLINE void Truth::settle() {
  for (std::size_t i = 0; i < program_.calls.size(); ++i) {
    base_.push_back(call(i, leaves_, base_));
    rounded_by_.push_back(base_.back());
    for (std::size_t j = 0; j < base_.back().size(); ++j)
      for (std::size_t e = 0; e < base_.back()[j].values.size(); ++e) {
        double &value = base_.back()[j].values[e], &by = rounded_by_.back()[j].values[e];
        const double rounded = stored(run_.results[i][j].dtype, value);
        by = std::isfinite(rounded) ? rounded - value : 0;
        value = rounded;
      }
  }
}

SOMA_INLINE Truth::Values Truth::evaluate(const std::vector<ReferenceTensor>& leaves,
                                          std::uint32_t noise, bool only_needed) const {
  std::vector<ReferenceTensor> own = leaves;
  for (std::size_t i = 0; i < own.size(); ++i) move(own[i], program_.leaves[i].dtype, noise, i);
  Values values;
  for (std::size_t i = 0; i < program_.calls.size(); ++i) {
    if (only_needed && (!needed_[i] || entries_[i]->name == "tape::detach")) {
      values.push_back(needed_[i] ? base_[i] : std::vector<ReferenceTensor>());
      continue;
    }
    values.push_back(call(i, own, values));
    for (std::size_t j = 0; j < values.back().size(); ++j) {
      ReferenceTensor& value = values.back()[j];
      for (std::size_t e = 0; e < value.values.size(); ++e)
        value.values[e] += rounded_by_[i][j].values[e];
      move(value, run_.results[i][j].dtype, noise, 100 * (i + 1) + j);
    }
  }
  return values;
}

SOMA_INLINE std::string Truth::results(double units) {
  std::vector<Values> moved;
  std::string wrong;
  for (const std::uint32_t runs : {noises, most_noises}) {
    while (moved.size() < runs)
      moved.push_back(evaluate(leaves_, static_cast<std::uint32_t>(moved.size()) + 1, false));
    wrong = wrong_result(moved, units);
    if (wrong.empty()) break;
  }
  return wrong;
}

SOMA_INLINE std::string Truth::wrong_result(const std::vector<Values>& moved, double units) const {
  for (std::size_t i = 0; i < base_.size(); ++i)
    for (std::size_t j = 0; j < base_[i].size(); ++j) {
      const ReferenceTensor given = values_of(run_.results[i][j]);
      const std::vector<double>& wanted = base_[i][j].values;
      const std::string name = "n" + std::to_string(i) + "." + std::to_string(j);
      if (given.shape != base_[i][j].shape)
        return name + " is " + soma::to_string(given.shape) + ", wanted " +
               soma::to_string(base_[i][j].shape);
      double greatest = 0, carried = 0;  // without infinities, which would allow everything
      const auto include = [](double& most, double value) {
        if (std::isfinite(value)) most = (std::max)(most, std::fabs(value));
      };
      for (std::size_t e = 0; e < wanted.size(); ++e) {
        include(greatest, wanted[e]);
        for (const Values& other : moved) include(carried, other[i][j].values[e] - wanted[e]);
      }
      for (std::size_t e = 0; e < wanted.size(); ++e) {
        double own = 0;
        for (const Values& other : moved)
          own = (std::max)(own, std::fabs(other[i][j].values[e] - wanted[e]));
        // A sum that differs in its last bit may be rounded to the other neighbour.
        const double limit = units * (fp32_error * greatest + 16 * own + 4 * carried) +
                             2 * rounding_of(run_.results[i][j].dtype) * std::fabs(wanted[e]) +
                             1e-6;
        const bool infinite = std::isinf(wanted[e]) && given.values[e] == wanted[e];
        if (!infinite && !(std::fabs(given.values[e] - wanted[e]) <= limit))
          return name + " of " + program_.calls[i].name + ": element " + std::to_string(e) +
                 " is " + std::to_string(given.values[e]) + ", wanted " +
                 std::to_string(wanted[e]) + " within " + std::to_string(limit);
      }
    }
  return {};
}

SOMA_INLINE double Truth::loss(const Values& values) const {
  const std::vector<double>& y = values[program_.result.index][program_.result.output].values;
  double total = 0;
  for (std::size_t i = 0; i < y.size(); ++i) total += seed_[i] * y[i];
  return total;
}

SOMA_INLINE double Truth::farthest(const Values& up, const Values& down) const {
  double most = 0;
  for (std::size_t i = 0; i < program_.calls.size(); ++i) {
    if (!needed_[i] || i == program_.result.index) continue;
    double squares = 0;
    for (std::size_t j = 0; j < up[i].size(); ++j)
      for (std::size_t e = 0; e < up[i][j].values.size(); ++e) {
        const double by = up[i][j].values[e] - down[i][j].values[e];
        if (std::isfinite(by)) squares += by * by;
      }
    most = (std::max)(most, std::sqrt(squares));
  }
  return most;
}

SOMA_INLINE std::string Truth::direction(std::size_t leaf, const std::vector<double>& along,
                                         const ReferenceTensor& given, double units,
                                         const std::string& name) {
  std::vector<ReferenceTensor> leaves = leaves_;
  const auto at = [&](double step, std::uint32_t noise) {
    for (std::size_t i = 0; i < along.size(); ++i)
      leaves[leaf].values[i] = leaves_[leaf].values[i] + step * along[i];
    return evaluate(leaves, noise, true);
  };
  const double h = step_size, middle = loss(at(0, 0));
  const Values values_up = at(h / 2, 0), values_down = at(-h / 2, 0);
  const double up = loss(at(h, 0)), down = loss(at(-h, 0));
  const double near_up = loss(values_up), near_down = loss(values_down);
  const double wanted = (near_up - near_down) / h;
  // Slopes on both sides differ by the step times the curvature, so by half for half the step; a
  // kink makes another ratio.
  const double bend = std::fabs(up + down - 2 * middle) / h;
  const double near_bend = std::fabs(near_up + near_down - 2 * middle) / (h / 2);
  double sum = 0, size = 0, length = 0, carried = 0;
  for (std::size_t i = 0; i < along.size(); ++i) {
    if (along[i] == 0) continue;
    length += along[i] * along[i];
    sum += along[i] * given.values[i];
    size += given.values[i] * given.values[i];
  }
  for (std::uint32_t noise = 1; noise <= noises; ++noise)
    carried = (std::max)(
        carried, std::fabs((loss(at(h / 2, noise)) - loss(at(-h / 2, noise))) / h - wanted));
  // Differences of numbers of the size of the loss are known to 2^-52 of it.
  const double least = std::fabs(middle) * 0x1p-48 / h;
  // Moves of several calls may cancel, the gradient's own roundings do not have to. Parts that
  // cancel inside of a call, as in norms and softmax, leave roundings of what the call was given;
  // on its way back to the leaf this grows as a step of the leaf grows on its way to the call.
  const double own = (std::max)(std::sqrt(size), std::fabs(wanted));
  const double gain = (std::max)(1.0, farthest(values_up, values_down) / (h * std::sqrt(length)));
  const double limit = least + units * (fp32_error * own + 20 * carried + 4 * coarsest_ * own +
                                        (5e-6 + 4 * coarsest_) * greatest_seed_ * gain);
  if (std::fabs(near_bend - bend / 2) > 0.05 * bend && bend > limit / 8) return {};
  if (!std::isfinite(wanted) || std::fabs(sum - wanted) <= limit) return {};
  return name + " is " + std::to_string(sum) + ", wanted " + std::to_string(wanted) + " within " +
         std::to_string(limit);
}

SOMA_INLINE std::string Truth::gradients(double units) {
  if (run_.gradients.empty()) return {};
  for (std::size_t i = 0; i < program_.leaves.size(); ++i) {
    if (!program_.leaves[i].parameter) continue;
    const std::size_t elements = leaves_[i].values.size();
    ReferenceTensor given{leaves_[i].shape, std::vector<double>(elements)};
    if (const Bits& bits = run_.gradients[i]; !bits.bytes.empty()) given = values_of(bits);
    if (given.shape != leaves_[i].shape)
      return "the gradient of a" + std::to_string(i) + " is " + soma::to_string(given.shape);
    for (std::size_t turn = 0; turn < 3 && elements > 0; ++turn) {
      std::vector<double> along(elements);
      const auto word = [&](std::size_t at) {
        return random_word({.seed = 11,
                            .stream = program_.leaves[i].draw,
                            .step = static_cast<std::uint32_t>(turn),
                            .index = at});
      };
      std::string name = "the gradient of a" + std::to_string(i);
      if (turn < 2) {
        const std::size_t at = turn == 0 ? word(0) % elements : elements - 1;
        along[at] = 1;
        name += " at element " + std::to_string(at);
      } else {
        for (std::size_t e = 0; e < elements; ++e) along[e] = (word(e) & 1u) != 0 ? 1 : -1;
        name += " along one direction";
      }
      if (std::string wrong = direction(i, along, given, units, name); !wrong.empty()) return wrong;
    }
  }
  return {};
}

}  // namespace SOMA_NAMESPACE::testing::detail
