#pragma once
// Code that recurrent layers share: the distribution of sequences to tasks, step by step, and a
// product with the same weights at every step.
//
// A task takes all steps of its sequences, so that no task waits for another between steps. Its
// sequences are sorted by length: those that continue at a step are the first ones, and are
// multiplied together. A row's result depends on its own sequence alone, whatever sequences share
// its task.

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/sequence/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

// The inputs of a recurrent layer: x [rows, gates H], weight [gates H, H], bias [gates H] or none,
// and the initial states, [sequences, H] each, or none. Errors tensor.rank, tensor.dtype,
// tensor.shape, operator.sequences.
inline void check_recurrent(std::string_view name, const ShapeCall& call, std::size_t gates) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  check_rank(name, "x", x, 2);
  check_floating(name, "x", x);
  check_sequences(name, x, call.sequences);
  check_no_padding(name, call.sequences);
  check_rank(name, "weight", weight, 2);
  check_floating(name, "weight", weight);
  const std::size_t hidden = weight.size(1);
  check_shape(name, "weight", weight, Shape{gates * hidden, hidden});
  check_shape(name, "x", x, Shape{x.size(0), gates * hidden});
  for (std::size_t i = 2; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i];
    if (!input.defined()) continue;
    const std::string_view what = i == 2 ? "bias" : i == 3 ? "state" : "cell";
    check_floating(name, what, input);
    check_shape(name, what, input,
                i == 2 ? Shape{gates * hidden} : Shape{call.sequences.count(), hidden});
  }
}

// The distribution of sequences to tasks.
class StepPlan {
 public:
  // `cost`: the multiply-adds of a row.
  StepPlan(Context& context, const Sequences& sequences, bool reverse, std::size_t cost)
      : sequences_(sequences),
        reverse_(reverse),
        sorted_(context.heap()),
        order_(context.heap()),
        borders_(context.heap()) {
    const std::size_t count = sequences.count();
    for (std::size_t i = 0; i < count; ++i) sorted_.push_back(i);
    std::stable_sort(sorted_.begin(), sorted_.end(), [&](std::size_t a, std::size_t b) {
      return sequences.length(a) > sequences.length(b);
    });
    constexpr std::size_t worth_a_task = 100000;  // multiply-adds
    const std::size_t tasks =
        worthwhile_tasks(context, count, sequences.rows() * cost, worth_a_task);
    // Sequences are dealt back and forth, which gives tasks about the same number of rows.
    borders_.push_back(0);
    for (std::size_t task = 0; task < tasks; ++task) {
      for (std::size_t round = 0; round * tasks < count; ++round) {
        const std::size_t at = round * tasks + (round % 2 == 0 ? task : tasks - 1 - task);
        if (at < count) order_.push_back(sorted_[at]);
      }
      borders_.push_back(order_.size());
    }
  }
  std::size_t tasks() const { return borders_.size() - 1; }
  // The largest number of sequences in a task.
  std::size_t most() const {
    std::size_t most = 0;
    for (std::size_t task = 0; task < tasks(); ++task) most = (std::max)(most, count(task));
    return most;
  }
  std::size_t count(std::size_t task) const { return borders_[task + 1] - borders_[task]; }
  // Sequence number i of a task, the longest first.
  std::size_t sequence(std::size_t task, std::size_t i) const { return order_[borders_[task] + i]; }
  std::size_t longest(std::size_t task) const {
    return count(task) == 0 ? 0 : sequences_.length(sequence(task, 0));
  }
  // The number of a task's sequences that have that step.
  std::size_t alive(std::size_t task, std::size_t step) const {
    std::size_t alive = count(task);
    while (alive != 0 && sequences_.length(sequence(task, alive - 1)) <= step) --alive;
    return alive;
  }
  // The row of a sequence's step.
  std::size_t row(std::size_t sequence, std::size_t step) const {
    return reverse_ ? sequences_.end(sequence) - 1 - step : sequences_.begin(sequence) + step;
  }

 private:
  const Sequences& sequences_;
  bool reverse_;
  HeapVector<std::size_t> sorted_, order_, borders_;
};

// c = a b in any task, for one b that is packed in advance.
class StepProduct {
 public:
  // b is depth x columns; a has at most `rows` rows.
  StepProduct(Context& context, const MatrixOperand& b, std::size_t depth, std::size_t columns,
              std::size_t rows)
      : context_(context) {
    all_.m = rows, all_.k = depth, all_.n = columns;
    all_.b = b;
    all_.a.row_stride = depth, all_.c.row_stride = columns;
    all_.bf16_products = context.bf16().products;
    all_.fp32_products = context.fp32_products();
    const GemmKernels& gemm = context.kernels().gemm;
    if (rows == 0 || depth == 0 || columns == 0) return;
    packing_ = gemm.shared_packing(all_);
    if (packing_.columns == 0) return;
    packed_ = Storage::allocate(context.heap(),
                                checked_multiply(panes(), packing_.bytes, "recurrent layer"));
    const std::size_t room = workspace_bytes();
    const Storage memory =
        Storage::allocate(context.heap(), checked_multiply(room, panes(), "recurrent layer"));
    parallel(context, static_cast<int>(panes()), [&](int index) {
      const auto pane = static_cast<std::size_t>(index);
      GemmArgs args = part_of(pane, (std::min)(rows, packing_.rows));
      args.workspace = memory.data() + pane * room;
      context_.kernels().gemm.pack_b(args);
    });
  }
  // The workspace of a task that multiplies.
  std::size_t workspace_bytes() const {
    const std::size_t bytes =
        packing_.columns != 0 ? packing_.workspace : context_.kernels().gemm.workspace_bytes(all_);
    return parts_of(bytes, memory_alignment) * memory_alignment;
  }
  // c [rows, columns] = a [rows, depth] b + bias, or c += a b.
  void run(const float* a, std::size_t rows, float* c, const float* bias, bool accumulate,
           std::byte* workspace) const {
    if (rows == 0 || all_.n == 0) return;
    const std::size_t most = packing_.columns != 0 ? packing_.rows : rows;
    for (std::size_t row = 0; row < rows; row += most)
      for (std::size_t pane = 0; pane < panes(); ++pane) {
        GemmArgs args = all_;
        args.a.data = a + row * all_.k;
        args.c.data = c + row * all_.n;
        args.epilogue.bias = bias;
        args.epilogue.accumulate = accumulate;
        args = part_of(pane, (std::min)(most, rows - row), args);
        args.workspace = workspace;
        context_.kernels().gemm.multiply(args);
      }
  }

 private:
  std::size_t panes() const {
    return packing_.columns == 0 ? 1 : parts_of(all_.n, packing_.columns);
  }
  GemmArgs part_of(std::size_t pane, std::size_t rows, const GemmArgs& of) const {
    const std::size_t first = pane * packing_.columns;
    const std::size_t columns =
        packing_.columns == 0 ? all_.n : (std::min)(packing_.columns, all_.n - first);
    GemmArgs args = detail::part(of, 0, rows, first, columns);
    if (packing_.columns != 0)
      args.packed_b = {reinterpret_cast<float*>(packed_.data() + pane * packing_.bytes), 0,
                       packing_.columns};
    return args;
  }
  GemmArgs part_of(std::size_t pane, std::size_t rows) const { return part_of(pane, rows, all_); }

  Context& context_;
  GemmArgs all_{};
  SharedPacking packing_{};
  Storage packed_{};
};

// Rows of floats for each task, one behind the other.
class TaskRows {
 public:
  TaskRows(Context& context, std::size_t tasks, std::size_t floats, std::size_t workspace)
      : floats_(parts_of(floats * sizeof(float), memory_alignment) * memory_alignment),
        stride_(checked_add(floats_, workspace, "recurrent layer")),
        memory_(Storage::allocate(context.heap(),
                                  checked_multiply(stride_, tasks, "recurrent layer"))) {}
  float* floats(std::size_t task) const {
    return reinterpret_cast<float*>(memory_.data() + task * stride_);
  }
  std::byte* workspace(std::size_t task) const { return memory_.data() + task * stride_ + floats_; }

 private:
  std::size_t floats_, stride_;
  Storage memory_;
};

// Copies one row of an optional matrix; zeros without the matrix.
inline void copy_state(const Tensor& from, std::size_t row, std::size_t count, float* to) {
  if (from.defined())
    std::memcpy(to, from.data<float>() + row * count, count * sizeof(float));
  else
    std::fill_n(to, count, 0.0f);
}

}  // namespace SOMA_NAMESPACE::detail
