#pragma once
// Optimizer steps of the rows that have a gradient: these rows and their states are gathered 128 at
// a time, updated, and written back to the same places.

#include <soma/ops/sparse/row_steps.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/rows/rows_of_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>

namespace SOMA_NAMESPACE::programs {

// A parameter, its gradient, and the numbers of the touched rows.
class TouchedStep {
 public:
  TouchedStep(Core& core, const OperatorCall& call)
      : core_(core),
        setting_(call.attributes.as<RowStepSetting>()),
        weight_(call.inputs[0]),
        values_(row_major(core, call.inputs[1])),
        numbers_(numbers_of(core, call)),
        count_(values_.size(0)),
        columns_(weight_.elements() == 0 ? 0 : weight_.elements() / weight_.size(0)) {
    if (empty()) return;
    rows_.emplace(core, numbers_);
    width_ = (std::min)(columns_, piece);
    height_ = (std::min)(count_, lanes);
  }
  bool empty() const { return count_ == 0 || columns_ == 0; }
  const RowStepSetting& setting() const { return setting_; }
  Tile scratch() { return core_.sbuf.tile(DType::fp32, height_, width_); }
  Tile column() { return core_.sbuf.tile(DType::fp32, height_, 1); }
  Pair pair() { return Pair(core_, DType::fp32, height_, width_); }
  HbmView view(const Tensor& state) const {
    return hbm_target(state.reshape(Shape{state.size(0), state.elements() / state.size(0)}));
  }

  // call(first, rows, numbers) for tiles of touched rows.
  template <class Call>
  void for_tiles(const Call& call) {
    for_pieces(count_, lanes, [&](std::size_t first, std::size_t rows) {
      call(first, rows, rows_->next(first, rows));
    });
  }
  template <class Call>
  void for_columns(const Call& call) const {
    for_pieces(columns_, piece, call);
  }
  // The gradient of a piece of a tile's rows, times the factor.
  void load_gradient(const Tile& tile, std::size_t first, std::size_t column) {
    const HbmView all = hbm(values_.reshape(Shape{count_, columns_}));
    core_.dma.load(
        tile,
        all.rows(first, first + tile.partitions()).columns(column, column + tile.free_size()));
    if (setting_.gradient_factor != 1)
      core_.scalar.activation(tile, tile, Function::copy, {.scale = setting_.gradient_factor});
  }
  void gather(const Tile& tile, const HbmView& from, const Tile& numbers, std::size_t column) {
    core_.dma.queue(store_queue)
        .gather(tile, from.columns(column, column + tile.free_size()), numbers);
  }
  void scatter(const HbmView& to, const Tile& tile, const Tile& numbers, std::size_t column) {
    core_.dma.queue(store_queue)
        .scatter(to.columns(column, column + tile.free_size()), tile, numbers,
                 neuroncore::Scatter::overwrite);
  }

 private:
  static Tensor numbers_of(Core& core, const OperatorCall& call) {
    const Tensor rows = soma::detail::input_or_none(call.inputs, 2);
    if (rows.defined()) {
      const HostNumbers given(core, rows);
      static_cast<void>(soma::detail::touched_rows(call.inputs[0], given.tensor()));
      return row_major(core, rows);
    }
    const Tensor all = Tensor::empty(call.context, Shape{call.inputs[0].size(0)}, DType::int64);
    auto* first = all.mutable_data<std::int64_t>();
    std::iota(first, first + all.elements(), std::int64_t{0});
    return all;
  }

  Core& core_;
  RowStepSetting setting_;
  Tensor weight_, values_, numbers_;
  std::size_t count_, columns_, width_ = 0, height_ = 0;
  std::optional<NumberColumns> rows_;
};

inline void row_sgd_step(Core& core, const OperatorCall& call) {
  TouchedStep step(core, call);
  if (step.empty()) return;
  const HbmView weight = step.view(call.inputs[0]);
  Pair weights = step.pair(), gradients = step.pair();
  step.for_tiles([&](std::size_t first, std::size_t rows, const Tile& numbers) {
    step.for_columns([&](std::size_t column, std::size_t width) {
      const Tile w = weights.next(rows, width), g = gradients.next(rows, width);
      step.load_gradient(g, first, column);
      step.gather(w, weight, numbers, column);
      core.vector.scalar_tensor_tensor(w, g, Alu::multiply, -step.setting().rate, Alu::add, w);
      step.scatter(weight, w, numbers, column);
    });
  });
}

// 1 / (sqrt(squares) * correction + epsilon), in place. The engine's square root is valid from
// 2^-116 to 2^118: squares are multiplied by 2^-10, which is exact, to stay below, and a small
// number is added to stay above. That number only matters if the root is below 2^-40.
class InverseRoot {
 public:
  InverseRoot(Core& core, float epsilon)
      : core_(core),
        tiny_(core.sbuf.tile(DType::fp32, lanes, 1)),
        epsilon_(core.sbuf.tile(DType::fp32, lanes, 1)) {
    core.vector.memset(tiny_, 0x1p-116f).memset(epsilon_, epsilon);
  }
  void of(const Tile& to, const Tile& squares, float correction) {
    const Tile tiny = tiny_.rows(0, to.partitions()), epsilon = epsilon_.rows(0, to.partitions());
    core_.scalar.activation(to, squares, Function::sqrt, {.scale = 0x1p-10f, .bias = &tiny});
    core_.scalar.activation(to, to, Function::copy,
                            {.scale = correction * 0x1p5f, .bias = &epsilon});
    core_.vector.reciprocal(to, to);
  }

 private:
  Core& core_;
  Tile tiny_, epsilon_;
};

inline void row_adagrad_step(Core& core, const OperatorCall& call) {
  TouchedStep step(core, call);
  if (step.empty()) return;
  const HbmView weight = step.view(call.inputs[0]), state = step.view(call.inputs[3]);
  const auto columns = static_cast<float>(call.inputs[0].elements() / call.inputs[0].size(0));
  Pair weights = step.pair(), gradients = step.pair();
  const Tile squares = step.scratch(), sums = step.column(), part = step.column(),
             root = step.column();
  InverseRoot inverse(core, step.setting().epsilon);
  step.for_tiles([&](std::size_t first, std::size_t rows, const Tile& numbers) {
    const Tile sum = sums.rows(0, rows), more = part.rows(0, rows), rate = root.rows(0, rows);
    step.gather(sum, state, numbers, 0);
    step.for_columns([&](std::size_t column, std::size_t width) {
      const Tile g = gradients.next(rows, width);
      step.load_gradient(g, first, column);
      core.scalar.activation_reduce(squares.rows(0, rows).columns(0, width), g, Function::square,
                                    more);
      core.scalar.activation(more, more, Function::copy, {.scale = 1.0f / columns});
      core.vector.tensor_tensor(sum, sum, more, Alu::add);
    });
    step.scatter(state, sum, numbers, 0);
    inverse.of(rate, sum, 1);
    core.vector.tensor_scalar(rate, rate, Alu::multiply, -step.setting().rate);
    step.for_columns([&](std::size_t column, std::size_t width) {
      const Tile w = weights.next(rows, width), g = gradients.next(rows, width);
      step.load_gradient(g, first, column);
      step.gather(w, weight, numbers, column);
      core.vector.scalar_tensor_tensor(w, g, Alu::multiply, rate, Alu::add, w);
      step.scatter(weight, w, numbers, column);
    });
  });
}

inline void row_adam_step(Core& core, const OperatorCall& call) {
  TouchedStep step(core, call);
  if (step.empty()) return;
  const RowStepSetting& setting = step.setting();
  const HbmView weight = step.view(call.inputs[0]), mean = step.view(call.inputs[3]),
                square = step.view(call.inputs[4]);
  Pair weights = step.pair(), gradients = step.pair(), means = step.pair(), squares = step.pair();
  const Tile shares = step.scratch(), roots = step.scratch();
  InverseRoot inverse(core, setting.epsilon);
  step.for_tiles([&](std::size_t first, std::size_t rows, const Tile& numbers) {
    step.for_columns([&](std::size_t column, std::size_t width) {
      const Tile w = weights.next(rows, width), g = gradients.next(rows, width);
      const Tile m = means.next(rows, width), v = squares.next(rows, width);
      const Tile share = shares.rows(0, rows).columns(0, width);
      const Tile root = roots.rows(0, rows).columns(0, width);
      step.load_gradient(g, first, column);
      step.gather(w, weight, numbers, column);
      step.gather(m, mean, numbers, column);
      step.gather(v, square, numbers, column);
      core.scalar.activation(share, g, Function::copy, {.scale = setting.one_minus_beta1});
      core.vector.scalar_tensor_tensor(m, m, Alu::multiply, setting.beta1, Alu::add, share)
          .scalar_tensor_tensor(share, g, Alu::multiply, setting.one_minus_beta2, Alu::multiply, g)
          .scalar_tensor_tensor(v, v, Alu::multiply, setting.beta2, Alu::add, share);
      inverse.of(root, v, setting.inverse_root_correction2);
      core.vector
          .scalar_tensor_tensor(root, m, Alu::multiply, -setting.step_size, Alu::multiply, root)
          .tensor_tensor(w, w, root, Alu::add);
      step.scatter(mean, m, numbers, column);
      step.scatter(square, v, numbers, column);
      step.scatter(weight, w, numbers, column);
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs
