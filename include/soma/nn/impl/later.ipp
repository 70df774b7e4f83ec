#pragma once
// The functions of later.hpp.

#include <soma/nn/later.hpp>

#include <soma/nn/initial.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void Later::make(Context& context, const Parameters& parameters) const {
  for (const Parameter& parameter : parameters)
    if (!parameter.var.value().defined())
      make_one(context, waiting_[find("Later::make", parameter)]);
}

SOMA_INLINE void Later::make_in_place(Context& context, const Parameters& parameters) const {
  for (const Parameter& parameter : parameters) {
    const Var& var = parameter.var;
    if (var.value().defined()) continue;
    const Waiting& waiting = waiting_[find("Later::make_in_place", parameter)];
    const bool stays = waiting.replacements.size() == 1 && waiting.replacements[0].whole() &&
                       waiting.replacements[0].from.dtype() == var.value().dtype() &&
                       waiting.replacements[0].from.contiguous() && waiting.indices.empty();
    if (stays)
      var.set_value(waiting.replacements[0].from);
    else
      make_one(context, waiting);
  }
}

SOMA_INLINE void Later::make_one(Context& context, const Waiting& waiting) const {
  const DType dtype = waiting.var.value().dtype();
  Tensor made = begin(context, waiting);
  for (const Replacement& each : waiting.replacements)
    each.fill(context, each.from,
              each.whole() ? made : made.slice(0, each.first_row, each.last_row));
  if (!waiting.indices.empty()) {
    const Tensor before = clone(context, made);
    for (std::size_t i = 0; i < waiting.indices.size(); ++i)
      copy(before.slice(0, waiting.indices[i], waiting.indices[i] + 1), made.slice(0, i, i + 1));
  }
  if (made.dtype() != dtype)
    made = run(context, *context.built_in().cast, CastSetting{.dtype = dtype}, {made})[0];
  waiting.var.set_value(made);
}

SOMA_INLINE void Later::add(const Var& parameter, const Initial* begin, const Initial* end) {
  waiting_.push_back({parameter, {begin, end}});
}

SOMA_INLINE void Later::replace(const Parameter& rows, const Tensor& from, Fill fill) {
  waiting_[find("Later::replace", rows)].replacements.push_back(
      {rows.first_row, rows.last_row, from, fill});
}

SOMA_INLINE void Later::order_rows(const Parameter& parameter,
                                   const std::vector<std::size_t>& indices) {
  waiting_[find("Later::order_rows", parameter)].indices = indices;
}

SOMA_INLINE std::size_t Later::find(std::string_view operation, const Parameter& parameter) const {
  for (std::size_t i = 0; i < waiting_.size(); ++i)
    if (waiting_[i].var.is(parameter.var)) return i;
  fail(error_id::tensor_undefined, operation, soma::quoted(parameter.name),
       "without elements and without initial values", "a parameter made with this object");
}

SOMA_INLINE Tensor Later::begin(Context& context, const Waiting& waiting) {
  const Shape& shape = waiting.var.shape();
  const DType dtype = waiting.var.value().dtype();
  // In the order of rows: files name the three matrices of an attention in any order.
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  for (const Replacement& each : waiting.replacements) {
    if (each.whole()) return Tensor::empty(context, shape, dtype);
    spans.emplace_back(each.first_row, each.last_row);
  }
  std::sort(spans.begin(), spans.end());
  std::size_t replaced = 0;  // leading rows that are replaced
  for (const auto& [first_row, last_row] : spans)
    if (first_row <= replaced) replaced = (std::max)(replaced, last_row);
  if (replaced != 0 && replaced >= shape[0]) return Tensor::empty(context, shape, dtype);
  const Initial* first = waiting.initial.data();
  return detail::make_initial(context, shape, first, first + waiting.initial.size());
}

}  // namespace SOMA_NAMESPACE::nn
