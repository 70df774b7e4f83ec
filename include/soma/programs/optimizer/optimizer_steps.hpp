#pragma once
// Optimizer steps. The parameter, its gradient and its states are loaded into SBUF once, tile by
// tile; LAMB reads the parameter twice, since the step depends on two norms of the whole parameter.
//
// If draws or a sparse gradient need rows, a partition holds a row of the parameter, or a piece of
// a row; else it holds any run of elements.

#include <soma/ops/optimizer/optimizer_steps.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace SOMA_NAMESPACE::programs {

using neuroncore::Rounded;

// The part of a parameter, and of all tensors of its shape, that one tile holds.
struct StepPart {
  std::size_t rows, columns;  // partitions, and elements of each
  std::size_t first, stride;  // elements: the first one, and from one partition to the next
  std::size_t row = 0;        // the parameter's row in partition 0, if rows matter
  std::uint64_t draw_index = 0;

  // The part's rows in a tensor that is viewed as one row.
  HbmView of(const HbmView& flat) const {
    return flat.columns(first, first + columns).with_rows(rows, stride);
  }
};

// A stored tensor that is read, changed and written back.
class StepState {
 public:
  StepState(Core& core, const Tensor& tensor, const StepPart& largest)
      : core_(core),
        view_(flat_target(tensor)),
        tiles_(core, tensor.dtype(), largest.rows, largest.columns) {
    // An fp32 tile also holds the computed values; other types need a second, wide tile.
    if (tiles_.next(1, 1).dtype() != DType::fp32)
      wide_ = core.sbuf.tile(DType::fp32, largest.rows, largest.columns);
  }
  Tile load(const StepPart& part) {
    const Tile tile = tiles_.next(part.rows, part.columns);
    core_.dma.load(tile, part.of(view_));
    return tile;
  }
  // The tile for the new value of a loaded tile, before it is rounded.
  Tile wide(const Tile& loaded) const {
    return wide_.defined() ? wide_.rows(0, loaded.partitions()).columns(0, loaded.free_size())
                           : loaded;
  }
  void store(const StepPart& part, const Tile& tile) {
    core_.dma.queue(store_queue).store(part.of(view_), tile);
  }
  // Rounds the tile wide() and writes it.
  void round_and_store(const StepPart& part, const Tile& loaded, const Rounded& rounded) {
    if (wide_.defined()) core_.scalar.copy(loaded, wide(loaded), rounded);
    store(part, loaded);
  }

 private:
  Core& core_;
  HbmView view_;
  Pair tiles_;
  Tile wide_;
};

// The parts of one parameter and its gradient.
template <class Setting>
class ParameterStep {
 public:
  ParameterStep(Core& core, const OperatorCall& call)
      : core_(core),
        setting_(call.attributes.as<Setting>()),
        weight_(call.inputs[0]),
        values_(row_major(core, call.inputs[1])),
        rows_(core, soma::detail::input_or_none(call.inputs, 2)),
        touched_(soma::detail::touched_rows(weight_, rows_.tensor())),
        columns_(columns_of(weight_)),
        draw_indices_(setting_, columns_),
        by_row_(rows_.tensor().defined() || draw_indices_.rows_apart()) {
    const std::size_t elements = weight_.elements();
    if (elements == 0) return;
    if (by_row_) static_cast<void>(parameter_index(elements / columns_, columns_));
    for_parts([this](const StepPart& part) {
      largest_.rows = (std::max)(largest_.rows, part.rows);
      largest_.columns = (std::max)(largest_.columns, part.columns);
    });
    gradients_.emplace(core, values_.dtype(), largest_.rows, largest_.columns);
    if (setting_.gradient_factor != 1) scaled_ = scratch();
    if (!touched_.empty()) plan_rows(call.context);
  }

  bool empty() const { return weight_.elements() == 0; }
  const Setting& setting() const { return setting_; }
  const StepPart& largest() const { return largest_; }
  Tile scratch() { return core_.sbuf.tile(DType::fp32, largest_.rows, largest_.columns); }
  static Tile of(const Tile& tile, const StepPart& part) {
    return tile.rows(0, part.rows).columns(0, part.columns);
  }

  // call(part) for parts that cover the parameter once.
  template <class Call>
  void for_parts(const Call& call) const {
    const std::size_t elements = weight_.elements();
    if (by_row_) {
      for_pieces(elements / columns_, lanes, [&](std::size_t row, std::size_t rows) {
        for_pieces(columns_, piece, [&](std::size_t column, std::size_t columns) {
          call(StepPart{rows, columns, row * columns_ + column, columns_, row,
                        draw_indices_.at(row, column)});
        });
      });
      return;
    }
    std::size_t done = 0;
    while (done != elements) {
      const std::size_t left = elements - done;
      // Less than a full tile is spread over the partitions, with rows long enough for transfers;
      // less than one such row is a tile of one partition.
      constexpr std::size_t thin = 256;
      std::size_t width = (std::min)((std::max)((left + lanes - 1) / lanes, thin), piece);
      width = (std::min)(width, left);
      const std::size_t rows = (std::min)(left / width, lanes);
      call(StepPart{rows, width, done, width, 0, draw_indices_.any() ? draw_indices_.at(done) : 0});
      done += rows * width;
    }
  }

  // The gradient of a part, multiplied by the factor; in its own type if the factor is 1.
  Tile gradient(const StepPart& part) {
    Tile tile = gradients_->next(part.rows, part.columns);
    if (!rows_.tensor().defined())
      core_.dma.load(tile, part.of(flat_view(values_)));
    else
      gather(tile, part);
    if (!scaled_.defined()) return tile;
    const Tile scaled = of(scaled_, part);
    core_.scalar.activation(scaled, tile, Function::copy, {.scale = setting_.gradient_factor});
    return scaled;
  }
  Rounded rounded(const Rounding& rounding, soma::detail::StepSite site,
                  const StepPart& part) const {
    Rounded result{.rounding = rounding};
    result.position.draw = {.seed = setting_.seed,
                            .stream = setting_.stream + static_cast<std::uint32_t>(site),
                            .step = setting_.step,
                            .index = part.draw_index};
    result.position.partition_step = by_row_ ? draw_indices_.stride() : part.stride;
    return result;
  }

 private:
  static std::size_t columns_of(const Tensor& weight) {
    return weight.rank() == 0 || weight.elements() == 0 ? 1 : weight.elements() / weight.size(0);
  }
  // For a sparse gradient: the index of its values of each row of the parameter; -1: it has no
  // values, and is zero.
  void plan_rows(Context& context) {
    positions_ = Tensor::full(context, Shape{weight_.size(0)}, std::int32_t{-1});
    auto* positions = positions_.template mutable_data<std::int32_t>();
    for (std::size_t i = 0; i < touched_.size(); ++i)
      positions[touched_[i]] = static_cast<std::int32_t>(i);
    indices_.emplace(core_, DType::int32, largest_.rows, std::size_t{1});
  }
  void gather(const Tile& tile, const StepPart& part) {
    core_.vector.memset(tile, 0);
    const auto next =
        std::lower_bound(touched_.begin(), touched_.end(), static_cast<std::int64_t>(part.row));
    if (next == touched_.end() || static_cast<std::size_t>(*next) >= part.row + part.rows) return;
    const Tile indices = indices_->next(part.rows, 1);
    core_.dma.load(indices,
                   hbm(positions_).columns(part.row, part.row + 1).with_rows(part.rows, 1));
    const std::size_t column = part.first % columns_;
    core_.dma.gather(tile,
                     flat_view(values_)
                         .columns(column, column + part.columns)
                         .with_rows(touched_.size(), columns_),
                     indices, neuroncore::OutOfBounds::skip);
  }

  Core& core_;
  const Setting& setting_;
  const Tensor& weight_;
  const Tensor values_;
  const HostNumbers rows_;
  std::span<const std::int64_t> touched_;
  std::size_t columns_;
  soma::detail::DrawIndices draw_indices_;
  bool by_row_;
  StepPart largest_{1, 1, 0, 0};
  std::optional<Pair> gradients_, indices_;
  Tile scaled_;
  Tensor positions_;
};

inline void sgd_step(Core& core, const OperatorCall& call) {
  using soma::detail::StepSite;
  ParameterStep<SgdSetting> step(core, call);
  if (step.empty()) return;
  const SgdSetting& setting = step.setting();
  StepState weight(core, call.inputs[0], step.largest());
  std::optional<StepState> momentum;
  if (setting.momentum != 0) momentum.emplace(core, call.inputs[3], step.largest());
  const Tile sums = setting.weight_decay != 0 ? step.scratch() : Tile();
  const Tile shares = setting.momentum != 0 ? step.scratch() : Tile();
  const float share = 1.0f - setting.dampening;
  step.for_parts([&](const StepPart& part) {
    const Tile w = weight.load(part);
    Tile g = step.gradient(part);
    if (setting.weight_decay != 0) {
      const Tile sum = step.of(sums, part);
      core.vector.scalar_tensor_tensor(sum, w, Alu::multiply, setting.weight_decay, Alu::add, g);
      g = sum;
    }
    Tile direction = g;
    if (momentum) {
      const Tile state = momentum->load(part), b = momentum->wide(state);
      const Tile shared = step.of(shares, part);
      if (setting.first_step) {
        core.scalar.copy(b, g);
      } else {
        if (share != 1) core.scalar.activation(shared, g, Function::copy, {.scale = share});
        core.vector.scalar_tensor_tensor(b, state, Alu::multiply, setting.momentum, Alu::add,
                                         share != 1 ? shared : g);
      }
      direction = b;
      if (setting.nesterov) {
        core.vector.scalar_tensor_tensor(shared, b, Alu::multiply, setting.momentum, Alu::add, g);
        direction = shared;
      }
      momentum->round_and_store(part, state, step.rounded(setting.state, StepSite::first, part));
    }
    core.vector.scalar_tensor_tensor(
        w, direction, Alu::multiply, -setting.rate, Alu::add, w,
        {.rounded = step.rounded(setting.weight, StepSite::weight, part)});
    weight.store(part, w);
  });
}

// The first half of AdamW and LAMB: the moments m and v, in fp32, and stored, and 1 / (sqrt(v)
// inverse_root_correction2 + epsilon).
template <class Setting>
class Moments {
 public:
  Moments(Core& core, const OperatorCall& call, ParameterStep<Setting>& step)
      : core_(core),
        step_(step),
        first_(core, call.inputs[3], step.largest()),
        second_(core, call.inputs[4], step.largest()),
        shares_(step.scratch()),
        roots_(step.scratch()),
        tiny_(core.sbuf.tile(DType::fp32, step.largest().rows, 1)),
        epsilon_(core.sbuf.tile(DType::fp32, step.largest().rows, 1)) {
    core.vector.memset(tiny_, 0x1p-116f).memset(epsilon_, step.setting().epsilon);
  }
  struct Result {
    Tile m, inverse;  // fp32; `inverse` may be overwritten
  };
  Result of(const StepPart& part) { return of(part, step_.gradient(part)); }
  Result of(const StepPart& part, const Tile& g) {
    using soma::detail::StepSite;
    const Setting& setting = step_.setting();
    const Tile stored_m = first_.load(part), stored_v = second_.load(part);
    const Tile m = first_.wide(stored_m), v = second_.wide(stored_v);
    const Tile share = step_.of(shares_, part), root = step_.of(roots_, part);
    core_.scalar.activation(share, g, Function::copy, {.scale = setting.one_minus_beta1});
    core_.vector.scalar_tensor_tensor(m, stored_m, Alu::multiply, setting.beta1, Alu::add, share)
        .scalar_tensor_tensor(share, g, Alu::multiply, setting.one_minus_beta2, Alu::multiply, g)
        .scalar_tensor_tensor(v, stored_v, Alu::multiply, setting.beta2, Alu::add, share);
    // The engine's square root is valid from 2^-116 to 2^118: v is multiplied by 2^-10, which is
    // exact, to stay below, and a small number is added to stay above. That number only matters if
    // the root is below 2^-40.
    const Tile tiny = tiny_.rows(0, part.rows), epsilon = epsilon_.rows(0, part.rows);
    core_.scalar.activation(root, v, Function::sqrt, {.scale = 0x1p-10f, .bias = &tiny});
    core_.scalar.activation(root, root, Function::copy,
                            {.scale = setting.inverse_root_correction2 * 0x1p5f, .bias = &epsilon});
    core_.vector.reciprocal(root, root);
    first_.round_and_store(part, stored_m, step_.rounded(setting.state, StepSite::first, part));
    second_.round_and_store(part, stored_v, step_.rounded(setting.state, StepSite::second, part));
    return {m, root};
  }

 private:
  Core& core_;
  ParameterStep<Setting>& step_;
  StepState first_, second_;
  Tile shares_, roots_, tiny_, epsilon_;
};

inline void adam_step(Core& core, const OperatorCall& call) {
  ParameterStep<AdamSetting> step(core, call);
  if (step.empty()) return;
  const AdamSetting& setting = step.setting();
  StepState weight(core, call.inputs[0], step.largest());
  Moments<AdamSetting> moments(core, call, step);
  const Tile sums = setting.coupled_decay != 0 ? step.scratch() : Tile();
  step.for_parts([&](const StepPart& part) {
    const Tile w = weight.load(part);
    Tile g = step.gradient(part);
    if (setting.coupled_decay != 0) {
      const Tile sum = step.of(sums, part);
      core.vector.scalar_tensor_tensor(sum, w, Alu::multiply, setting.coupled_decay, Alu::add, g);
      g = sum;
    }
    const auto [m, inverse] = moments.of(part, g);
    core.vector
        .scalar_tensor_tensor(inverse, m, Alu::multiply, -setting.step_size, Alu::multiply, inverse)
        .scalar_tensor_tensor(
            w, w, Alu::multiply, setting.decay_factor, Alu::add, inverse,
            {.rounded = step.rounded(setting.weight, soma::detail::StepSite::weight, part)});
    weight.store(part, w);
  });
}

// -rate * trust in every partition: `squares` [128, 2] holds sums of squares of the weight and of
// its update.
inline Tile lamb_factor(Core& core, const Tile& squares, float rate) {
  const Tile ones = core.sbuf.tile(DType::fp32, lanes, lanes);
  const Tile norms = core.sbuf.tile(DType::fp32, lanes, 2);
  const Tile positive = core.sbuf.tile(DType::fp32, lanes, 2);
  const Tile both = core.sbuf.tile(DType::uint8, lanes, 1);
  const Tile factor = core.sbuf.tile(DType::fp32, lanes, 1);
  const Tile totals = core.psum.tile(lanes, 2);
  core.vector.memset(ones, 1);
  core.tensor.matmul(totals, ones, squares);  // added over partitions, the sum in each of them
  const auto weight = [](const Tile& tile) { return tile.columns(0, 1); };
  const auto update = [](const Tile& tile) { return tile.columns(1, 2); };
  core.vector.tensor_scalar(positive, totals, Alu::greater, 0)
      .tensor_tensor(both, weight(positive), update(positive), Alu::multiply);
  // Limits the norms to the range of the engine's square root; the constant is the first operand,
  // so that NaN stays.
  core.vector.tensor_scalar(norms, totals, Alu::maximum, 0x1p-116f, Alu::minimum, 0x1p118f,
                            {.reverse0 = true, .reverse1 = true});
  core.scalar.activation(norms, norms, Function::sqrt);
  core.vector.reciprocal(update(norms), update(norms))
      .tensor_tensor(factor, weight(norms), update(norms), Alu::multiply)
      .select(factor, both, factor, 1.0f)  // where either norm is zero
      .tensor_scalar(factor, factor, Alu::multiply, -rate);
  return factor;
}

inline void lamb_step(Core& core, const OperatorCall& call) {
  using soma::detail::StepSite;
  ParameterStep<LambSetting> step(core, call);
  if (step.empty()) return;
  const LambSetting& setting = step.setting();
  // The update of the whole parameter waits in device memory for the norms.
  const Tensor update = core.hold(Tensor::empty(call.context, call.inputs[0].shape()));
  StepState weight(core, call.inputs[0], step.largest()), updates(core, update, step.largest());
  const Tile squares = core.sbuf.tile(DType::fp32, lanes, 2);
  core.vector.memset(squares, 0);
  {
    const Core::Scope scope(core);
    Moments<LambSetting> moments(core, call, step);
    const Tile sums = core.sbuf.tile(DType::fp32, step.largest().rows, 2);
    Pair ratios(core, DType::fp32, step.largest().rows, step.largest().columns);
    const HbmView to = flat_target(update);
    step.for_parts([&](const StepPart& part) {
      const Tile w = weight.load(part), u = ratios.next(part.rows, part.columns);
      const auto [m, inverse] = moments.of(part);
      core.vector
          .scalar_tensor_tensor(u, m, Alu::multiply, setting.inverse_correction1, Alu::multiply,
                                inverse)
          .scalar_tensor_tensor(u, w, Alu::multiply, setting.weight_decay, Alu::add, u);
      core.dma.queue(store_queue).store(part.of(to), u);
      const Tile sum = sums.rows(0, part.rows), total = squares.rows(0, part.rows);
      core.scalar.activation_reduce(inverse, w, Function::square, sum.columns(0, 1))
          .activation_reduce(inverse, u, Function::square, sum.columns(1, 2));
      core.vector.tensor_tensor(total, total, sum, Alu::add);
    });
  }
  const Tile factor = lamb_factor(core, squares, setting.rate);
  step.for_parts([&](const StepPart& part) {
    const Tile w = weight.load(part), u = updates.load(part);
    core.vector.scalar_tensor_tensor(
        w, u, Alu::multiply, factor.rows(0, part.rows), Alu::add, w,
        {.rounded = step.rounded(setting.weight, StepSite::weight, part)});
    weight.store(part, w);
  });
}

}  // namespace SOMA_NAMESPACE::programs
