#pragma once
// The functions of ctc.hpp.

#include <soma/autograd/ctc.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/ops/loss/settings.hpp>
#include <soma/ops/records.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE {

SOMA_INLINE Var ctc_loss(Tape& tape, const Var& x, const Var& labels, const CtcOptions& options) {
  const Sequences &rows = x.sequences(), &own = labels.sequences();
  if (!rows.defined() || !own.defined() || rows.count() != own.count())
    fail(error_id::operator_sequences, "ctc_loss", "labels",
         own.defined() ? std::to_string(own.count()) + " sequences" : "without sequences",
         rows.defined() ? "those of x, " + std::to_string(rows.count())
                        : std::string("as many as x has, which has none"));
  const Tensor begins = Tensor::empty(tape.context(), Shape{own.count() + 1}, DType::int64);
  auto* next = begins.mutable_data<std::int64_t>();
  for (const std::size_t offset : own.offsets()) *next++ = static_cast<std::int64_t>(offset);
  const Var inputs[] = {x, tape.constant(labels.value()), tape.constant(begins)};
  const Var losses = tape.apply_all(*tape.operators().ctc_loss,
                                    CtcSetting{.blank = options.blank,
                                               .zero_infinity = options.zero_infinity,
                                               .record = tape.recording()},
                                    inputs)[0];
  if (options.reduction == LossReduction::none) return losses;
  if (options.reduction == LossReduction::sum) return sum(tape, losses);
  const Tensor counts = Tensor::empty(tape.context(), Shape{own.count()});
  for (std::size_t i = 0; i < own.count(); ++i)
    counts.mutable_data<float>()[i] = static_cast<float>((std::max)(own.length(i), std::size_t{1}));
  return mean(tape, div(tape, losses, tape.constant(counts)));
}

}  // namespace SOMA_NAMESPACE
