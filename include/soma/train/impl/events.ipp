#pragma once
// The functions of events.hpp.

#include <soma/train/events.hpp>

#include <soma/train/evaluation.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void Report::take(Evaluation evaluation) {
  metrics = std::move(evaluation.metrics);
  values = std::move(evaluation.values);
  evaluation_loss = evaluation.loss;
  evaluated = true;
}

SOMA_INLINE double Report::metric(std::string_view name) const {
  if (const metrics::Value* value = metrics::find(values, name)) return value->value;
  std::string known;
  for (const metrics::Value& value : values)
    known.append(known.empty() ? "" : ", ").append(value.name);
  fail(error_id::train_options, "Report::metric", "name", soma::quoted(name),
       known.empty() ? "no name: there was no evaluation" : "one of " + known);
}

SOMA_INLINE double Report::steps_per_second() const {
  return per_second(static_cast<double>(steps - first_step));
}

SOMA_INLINE double Report::tokens_per_second() const {
  return per_second(static_cast<double>(tokens));
}

SOMA_INLINE double Report::useful_gflops() const { return per_second(useful_flops * 1e-9); }

SOMA_INLINE bool Callback::take_stop() { return std::exchange(stop_, false); }

SOMA_INLINE bool Callback::take_save() { return std::exchange(save_, false); }

}  // namespace SOMA_NAMESPACE::train
