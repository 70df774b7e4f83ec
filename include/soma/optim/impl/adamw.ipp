#pragma once
// The functions of adamw.hpp.

#include <soma/optim/adamw.hpp>

#include <soma/numeric/fused.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/records.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim::detail {

SOMA_INLINE Tensor live_rows(Context& context, const Tensor& first, const Tensor& second) {
  const std::size_t rows = first.size(0);
  const Tensor live = Tensor::zeros(context, Shape{rows}, DType::uint8);
  auto* marks = live.mutable_data<std::uint8_t>();
  for (const Tensor& moment : {first, second}) {
    const std::size_t bytes = rows == 0 ? 0 : moment.bytes() / rows;
    if (bytes == 0) continue;
    soma::detail::for_ranges(context, rows, bytes / 4, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const std::byte* at = moment.raw() + row * bytes;
        // All bytes equal the first byte, and the first byte is zero.
        if (at[0] != std::byte{0} || std::memcmp(at, at + 1, bytes - 1) != 0) marks[row] = 1;
      }
    });
  }
  return live;
}

SOMA_INLINE AdamSetting adam_setting(const Slot& slot, const Step& step,
                                     const AdamWOptions& options) {
  const double rate = step.rate * static_cast<double>(slot.rate_factor);
  const double correction1 = 1 - portable_power(options.beta1, slot.steps + 1);
  const double correction2 = 1 - portable_power(options.beta2, slot.steps + 1);
  return {.beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .epsilon = static_cast<float>(options.epsilon),
          .one_minus_beta1 = static_cast<float>(1 - options.beta1),
          .one_minus_beta2 = static_cast<float>(1 - options.beta2),
          .step_size = static_cast<float>(rate / correction1),
          .inverse_root_correction2 = static_cast<float>(1 / std::sqrt(correction2)),
          .gradient_factor = step.gradient_factor,
          .first_row = slot.first_row,
          .seed = options.storage.seed,
          .stream = slot.stream,
          .step = static_cast<std::uint32_t>(slot.steps)};
}

}  // namespace SOMA_NAMESPACE::optim::detail

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, AdamWOptions& options) {
  visitor.option("beta1", options.beta1, share_range);
  visitor.option("beta2", options.beta2, share_range);
  visitor.option("epsilon", options.epsilon, epsilon_range);
}

SOMA_INLINE AdamW::AdamW(Context& context, const std::vector<Group>& groups,
                         const AdamWOptions& options)
    : Optimizer(context, groups, options.storage), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE AdamW::AdamW(Context& context, Parameters parameters, float weight_decay,
                         const AdamWOptions& options)
    : AdamW(context,
            std::vector<Group>{{.parameters = std::move(parameters), .weight_decay = weight_decay}},
            options) {}

SOMA_INLINE void AdamW::describe(Record& record) const {
  record.set("optimizer", "adamw");
  record.set("optimizer.beta1", options_.beta1);
  record.set("optimizer.beta2", options_.beta2);
  record.set("optimizer.epsilon", options_.epsilon);
  describe_groups(record);
  describe_storage(record, options_.storage);
}

SOMA_INLINE void AdamW::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  const FloatEnvironment environment;
  for (detail::Slot& slot : slots_) {
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    const detail::RestingRow resting(context_, slot);
    const Tensor weight = slot.rows_of(slot.parameter.value());
    detail::ensure_state(context_, slot.first, slot, options_.storage.state);
    detail::ensure_state(context_, slot.second, slot, options_.storage.state);
    const double rate = step.rate * static_cast<double>(slot.rate_factor);
    AdamSetting setting = detail::adam_setting(slot, step, options_);
    setting.weight = drawn(options_.storage.weight_rounding);
    setting.state = drawn(options_.storage.state_rounding);
    setting.decay_factor =
        static_cast<float>(fused_multiply_add(-rate, static_cast<double>(slot.weight_decay), 1.0));
    mark_live(slot, gradient);
    if (weight.elements() != 0)
      run(context_, *context_.built_in().adam_step, setting,
          {weight, gradient.values, gradient.rows, slot.first, slot.second, slot.live});
    ++slot.steps;
  }
}

SOMA_INLINE void AdamW::mark_live(detail::Slot& slot, const Gradient& gradient) {
  if (!gradient.sparse()) {
    slot.live = Tensor();
    return;
  }
  if (!slot.live.defined()) slot.live = detail::live_rows(context_, slot.first, slot.second);
  const std::span<std::uint8_t> marks = slot.live.mutable_span<std::uint8_t>();
  for (const std::int64_t row : gradient.rows.span<std::int64_t>())
    if (row >= 0 && static_cast<std::uint64_t>(row) < marks.size())  // the step refuses other row
                                                                     // numbers
      marks[static_cast<std::size_t>(row)] = 1;
}

}  // namespace SOMA_NAMESPACE::optim
