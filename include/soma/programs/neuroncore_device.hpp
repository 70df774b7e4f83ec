#pragma once
// NeuronCoreDevice: runs every operator of a context as its program on a core, one after the other
// (eagerly). An operator without a program runs on the host in between; which ones did is counted
// and logged once. On a core that does not compute (CoreOptions::compute) results are zeros, and
// what runs on the host in between reads those.
//
//   auto core = neuroncore::make_core(context, neuroncore::trn1());  // soma/neuroncore.hpp
//   auto device = neuroncore::make_device(core);
//   context.set_device(&device);  // from here on every tape, backward pass and optimizer step

#include <soma/neuroncore/core.hpp>
#include <soma/ops/device.hpp>
#include <soma/ops/program.hpp>
#include <soma/runtime/callback.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma {

class NeuronCoreDevice final : public Device {
 public:
  // How often an operator ran, and where.
  struct Count {
    std::string_view name;
    const Program* program = nullptr;  // nullptr: it has none
    std::uint64_t programs = 0, host = 0;
    std::array<std::uint64_t, neuroncore::engine_count> instructions{};
    std::uint64_t hbm_bytes = 0;    // read and written
    std::uint64_t dma_buffers = 0;  // pieces side by side that transfers moved
    std::size_t sbuf_high_water = 0, psum_high_water = 0;  // bytes a partition
  };

  // Used by make_device(). Core and programs outlive the device.
  NeuronCoreDevice(neuroncore::Core& core, std::span<const OperatorProgram> programs)
      : core_(core), programs_(programs) {}
  NeuronCoreDevice(const NeuronCoreDevice&) = delete;
  NeuronCoreDevice& operator=(const NeuronCoreDevice&) = delete;

  // The program of an operator: its own, or the built-in one; nullptr: it has none.
  const Program* program_of(const Operator& op) const {
    if (op.program != nullptr) return op.program;
    for (const OperatorProgram& entry : programs_)
      if (entry.op->name == op.name) return &entry.program;
    return nullptr;
  }

  // Errors neuroncore.* of the program.
  void run(const Operator& op, const OperatorCall& call) override {
    if (op.makes_views) return op.host(call);  // addresses only: nothing to run
    Count& count = count_of(op);
    const Program* program = count.program;
    if (program == nullptr && op.on_processors != nullptr)
      return run_on_processors(op, call, count);
    if (program == nullptr) {
      if (count.host++ == 0)
        call.context.log(LogLevel::warning,
                         std::string(op.name) + ": no NeuronCore program, runs on the host");
      if (!core_.options().compute)
        for (const Tensor& input : call.inputs) host_reads_ += input.defined() ? 1u : 0u;
      return op.host(call);
    }
    ++count.programs;
    const bool nothing = std::all_of(call.outputs.begin(), call.outputs.end(),
                                     [](const Tensor& output) { return output.elements() == 0; });
    if (nothing && op.outputs != 0) return;
    if (!core_.options().compute)  // what no transfer reaches is zero, too
      for (const Tensor& output : call.outputs)
        if (output.elements() != 0) std::memset(output.mutable_raw(), 0, output.bytes());
    const neuroncore::Statistics before = core_.statistics();
    {
      Run running(core_, op.name);
      program->run(core_, call);
      running.finish();
    }
    const neuroncore::Statistics& after = core_.statistics();
    for (std::size_t engine = 0; engine < neuroncore::engine_count; ++engine)
      count.instructions[engine] += after.of_engine[engine] - before.of_engine[engine];
    count.hbm_bytes += after.hbm_bytes_read - before.hbm_bytes_read + after.hbm_bytes_written -
                       before.hbm_bytes_written;
    count.dma_buffers += after.dma_buffers - before.dma_buffers;
    count.sbuf_high_water = (std::max)(count.sbuf_high_water, core_.sbuf.high_water());
    count.psum_high_water = (std::max)(count.psum_high_water, core_.psum.high_water());
    // It may replace itself: the copy lives until it returns.
    if (const auto called = after_program_) called(op.name);
  }

  // From here on, function(name of the operator) is called after each program, when all of it has
  // ended and no call is open: there core().take_recorded() gives the instructions of what ran
  // since the last time. nullptr: nothing is called any more.
  template <class Function>
  void after_program(Function function) {
    after_program_ = {core_.context().heap(), std::move(function)};
  }
  void after_program(std::nullptr_t) { after_program_ = {}; }

  // The machine, and what its core does otherwise than by default and shows in numbers.
  std::string name() const override {
    const neuroncore::CoreOptions &set = core_.options(), usual{};
    std::string name(core_.machine().name);
    const auto add = [&name](std::string_view option, auto value, auto otherwise) {
      if (value == otherwise) return;
      name.append(" ").append(option).append("=").append(std::to_string(static_cast<int>(value)));
    };
    add("compute", set.compute, usual.compute);
    add("everything_fp32", set.everything_fp32, usual.everything_fp32);
    add("sum_order", set.sum_order, usual.sum_order);
    add("reduce_order", set.reduce_order, usual.reduce_order);
    add("out_of_range", set.out_of_range, usual.out_of_range);
    add("overflow", set.overflow, usual.overflow);
    return name;
  }

  neuroncore::Core& core() { return core_; }
  // In the order in which they ran first.
  const std::vector<Count>& counts() const { return counts_; }
  // In a dry run, how many tensors operators read that ran on the host in between: numbers that
  // their results may depend on, and that nobody computed.
  std::uint64_t host_reads() const { return host_reads_; }

 private:
  // One program: its tiles are given back and nothing stays under way, however it ends.
  class Run {
   public:
    Run(neuroncore::Core& core, std::string_view name)
        : core_(core), scope_(core), call_(core.call(name)) {
      core.start_high_water();
    }
    ~Run() {
      if (!finished_) core_.abandon();
    }
    void finish() {
      core_.finish();
      finished_ = true;
    }

   private:
    neuroncore::Core& core_;
    neuroncore::Core::Scope scope_;
    neuroncore::Core::Call call_;
    bool finished_ = false;
  };

  // One instruction, which reads and writes device memory by itself.
  void run_on_processors(const Operator& op, const OperatorCall& call, Count& count) {
    ++count.programs;
    Run running(core_);
    core_.gpsimd.custom_operator(call.inputs, call.outputs, [&] {
      const ProcessorWork work = op.on_processors(call);
      count.hbm_bytes += work.bytes_read + work.bytes_written;
      return neuroncore::CustomWork{work.bytes_read, work.bytes_written, work.nanoseconds};
    });
    running.finish();
    ++count.instructions[static_cast<std::size_t>(neuroncore::Engine::gpsimd)];
  }

  Count& count_of(const Operator& op) {
    for (Count& count : counts_)
      if (count.name == op.name && (op.program == nullptr || count.program == op.program))
        return count;
    Count count;
    count.name = op.name;
    count.program = program_of(op);
    counts_.push_back(count);
    return counts_.back();
  }
  neuroncore::Core& core_;
  std::span<const OperatorProgram> programs_;
  std::vector<Count> counts_;
  std::uint64_t host_reads_ = 0;
  Callback<void(std::string_view)> after_program_;
};

}  // namespace soma
