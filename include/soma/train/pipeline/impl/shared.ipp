#pragma once
// The functions of shared.hpp.

#include <soma/train/pipeline/shared.hpp>

#include <soma/base/error.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void SharedParameters::set(const nn::Pieces& pieces, const PipelinePlan& plan) {
  entries_.clear();
  copies_.clear();
  for (const nn::Piece& piece : pieces)
    for (const Parameter& shared : piece.shared)
      if (find(shared.var) == nullptr) entries_.push_back({.parameter = shared});
  for (Entry& entry : entries_)
    for (std::size_t stage = 0; stage < plan.partitions; ++stage) {
      bool uses = false;
      for (std::size_t i = plan.first_piece(stage); i < plan.end_piece(stage); ++i)
        for (const Parameters* list : {&pieces[i].parameters, &pieces[i].shared})
          for (const Parameter& parameter : *list)
            uses = uses || parameter.var.is(entry.parameter.var);
      if (uses) entry.stages.push_back(stage);
    }
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [](const Entry& entry) { return entry.stages.size() < 2; }),
                 entries_.end());
  for (const Entry& entry : entries_) {
    const auto own = static_cast<std::size_t>(pipeline_.rank());
    const bool uses =
        std::find(entry.stages.begin(), entry.stages.end(), own) != entry.stages.end();
    if (uses && !owns(entry)) copies_.push_back(entry.parameter);
  }
}

SOMA_INLINE std::size_t SharedParameters::owner_of(const Var& var, std::size_t stage) const {
  const Entry* entry = find(var);
  return entry == nullptr ? stage : entry->stages.back();
}

SOMA_INLINE bool SharedParameters::has_copy(const Var& var) const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [&](const Parameter& copy) { return copy.var.is(var); });
}

SOMA_INLINE bool SharedParameters::first_has(const Var& var) const {
  const Entry* entry = find(var);
  return entry != nullptr && entry->stages.front() == 0;
}

SOMA_INLINE void SharedParameters::receive(const Var& parameter, Gradient addend) {
  for (Entry& entry : entries_)
    if (entry.parameter.var.is(parameter) && ++entry.received > 1 && !owns(entry))
      fail(error_id::train_options, "PipelineTrainer",
           "shared variable " + soma::quoted(entry.parameter.name),
           "used more than once by stage " + std::to_string(pipeline_.rank()),
           "one use in each stage before the last that has it");
  next_.receive(parameter, std::move(addend));
}

// The sum of all stages is rounded, not that of one.
SOMA_INLINE void SharedParameters::complete(const Var& parameter, DType type) {
  if (find(parameter) == nullptr) next_.complete(parameter, type);
}

SOMA_INLINE void SharedParameters::add_gradients(const PrecisionState& precision) {
  const auto own = static_cast<std::size_t>(pipeline_.rank());
  for (Entry& entry : entries_) {
    entry.received = 0;
    const Var& var = entry.parameter.var;
    if (var.frozen()) continue;
    for (std::size_t i = entry.stages.size() - 1; i-- > 0;) {
      if (entry.stages[i] == own) send(entry);
      if (owns(entry)) add(entry, entry.stages[i]);
    }
    if (owns(entry)) round_gradient(context_, var, precision.gradient_type(var.shape()));
  }
}

SOMA_INLINE void SharedParameters::update() {
  for (const Entry& entry : entries_) {
    if (entry.parameter.var.frozen()) continue;
    const Tensor& value = entry.parameter.var.value();
    const std::size_t owner = entry.stages.back();
    for (const std::size_t stage : entry.stages)
      if (stage != owner && owns(entry))
        pipeline_.send(static_cast<int>(stage), collective_tag, {value.raw(), value.bytes()});
    if (has_copy(entry.parameter.var))
      pipeline_.receive(static_cast<int>(owner), collective_tag,
                        {value.mutable_raw(), value.bytes()});
  }
}

SOMA_INLINE auto SharedParameters::find(const Var& var) const -> const Entry* {
  for (const Entry& entry : entries_)
    if (entry.parameter.var.is(var)) return &entry;
  return nullptr;
}

SOMA_INLINE bool SharedParameters::owns(const Entry& entry) const {
  return entry.stages.back() == static_cast<std::size_t>(pipeline_.rank());
}

// The header says how many rows the values have (-1: there is no gradient), the first row that
// this replica keeps, and if the rows are named.
SOMA_INLINE void SharedParameters::send(const Entry& entry) const {
  const Var& var = entry.parameter.var;
  const Gradient gradient = var.gradient();
  var.clear_gradient();
  const auto to = static_cast<int>(entry.stages.back());
  std::array<std::int64_t, 3> header{-1, 0, 0};
  if (gradient.defined())
    header = {static_cast<std::int64_t>(gradient.values.size(0)),
              static_cast<std::int64_t>(gradient.first_row), gradient.sparse() ? 1 : 0};
  pipeline_.send(to, collective_tag, std::as_bytes(std::span(header)));
  if (!gradient.defined()) return;
  if (gradient.sparse())
    pipeline_.send(to, collective_tag, {gradient.rows.raw(), gradient.rows.bytes()});
  const Tensor values = contiguous(context_, gradient.values);
  pipeline_.send(to, collective_tag, {values.raw(), values.bytes()});
}

SOMA_INLINE void SharedParameters::add(const Entry& entry, std::size_t from) const {
  const Var& var = entry.parameter.var;
  const auto peer = static_cast<int>(from);
  std::array<std::int64_t, 3> header{};
  pipeline_.receive(peer, collective_tag, std::as_writable_bytes(std::span(header)));
  if (header[0] < 0) return;
  const auto rows = static_cast<std::size_t>(header[0]);
  Gradient more;
  more.first_row = static_cast<std::size_t>(header[1]);
  if (header[2] != 0) {
    more.rows = Tensor::empty(context_, Shape{rows}, DType::int64);
    pipeline_.receive(peer, collective_tag, {more.rows.mutable_raw(), more.rows.bytes()});
  }
  more.values = Tensor::empty(context_, var.shape().with(0, rows), DType::fp32);
  pipeline_.receive(peer, collective_tag, {more.values.mutable_raw(), more.values.bytes()});
  Gradient total = var.gradient();
  var.clear_gradient();  // so that the sum may be made in place
  context_.built_in().accumulate(context_, total, std::move(more));
  var.set_gradient(std::move(total));
}

}  // namespace SOMA_NAMESPACE::train
