#pragma once
// The functions of sequential.hpp.

#include <soma/nn/sequential.hpp>

#include <soma/base/record.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/scope.hpp>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE void describe_under(Record& record, const std::string& name, const Record& own) {
  for (const auto& [entry, value] : own.entries()) {
    const std::string full = name + "." + entry;
    switch (value.kind) {
      case RecordValue::Kind::boolean:
        record.set(full, value.boolean);
        break;
      case RecordValue::Kind::integer:
        record.set(full, value.integer);
        break;
      case RecordValue::Kind::count:
        record.set(full, value.count);
        break;
      case RecordValue::Kind::number:
        record.set(full, value.number);
        break;
      case RecordValue::Kind::text:
        record.set(full, value.text);
        break;
    }
  }
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE std::size_t Sequential::size() const { return steps_.size(); }

SOMA_INLINE Var Sequential::operator()(Tape& tape, const Var& x) const {
  Var y = x;
  for (const StepUse& step : steps_) y = step->run(tape, y);
  return y;
}

SOMA_INLINE Var Sequential::operator()(Tape& tape, const data::Batch& batch) const {
  if (steps_.empty()) return tape.constant(batch.inputs);
  Var y = steps_[0]->begin(tape, batch);
  for (std::size_t i = 1; i < steps_.size(); ++i) y = steps_[i]->run(tape, y);
  return y;
}

SOMA_INLINE void Sequential::collect(Collector& collector) const {
  for (const StepUse& step : steps_) collector.part(step->name, *step);
}

SOMA_INLINE Pieces Sequential::pieces(std::string_view path) const {
  Pieces list;
  for (const StepUse& step : steps_) {
    Parameters own;
    Collector collector(own, std::string(path));
    collector.part(step->name, *step);
    const bool first = list.empty();
    list.emplace_back(
        step->name, std::move(own),
        [step, first](Tape& tape, const Var& x, const data::Batch& batch) {
          return first ? step->begin(tape, batch) : step->run(tape, x);
        },
        step->mixes_sequences);
  }
  return list;
}

SOMA_INLINE void Sequential::describe(Record& record) const {
  for (const StepUse& step : steps_) {
    Record own;
    step->describe(own);
    detail::describe_under(record, step->name, own);
  }
}

SOMA_INLINE bool Sequential::mixes_sequences() const {
  for (const StepUse& step : steps_)
    if (step->mixes_sequences) return true;
  return false;
}

SOMA_INLINE Sequential::StepUse::StepUse(const StepUse& other) : step_(other.step_) {
  step_->uses.fetch_add(1, std::memory_order_relaxed);
}

SOMA_INLINE auto Sequential::StepUse::operator=(StepUse other) noexcept -> StepUse& {
  std::swap(step_, other.step_);
  return *this;
}

SOMA_INLINE Sequential::StepUse::~StepUse() {
  if (step_->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) delete step_;
}

}  // namespace SOMA_NAMESPACE::nn
