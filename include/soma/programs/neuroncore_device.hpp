#pragma once
// NeuronCoreDevice: runs every operator of a context as its program on a core: one after the other,
// or as graphs of many (RunMode). An operator without a program runs on the host in between; which
// ones did is counted and logged once. On a core that does not compute (CoreOptions::compute)
// results are zeros, and what runs on the host in between reads those.
//
//   auto core = neuroncore::make_core(context, neuroncore::trn1());  // soma/neuroncore.hpp
//   auto device = neuroncore::make_device(core);
//   context.set_device(&device);  // from here on every tape, backward pass and optimizer step

#include <soma/neuroncore/core.hpp>
#include <soma/ops/device.hpp>
#include <soma/ops/program.hpp>
#include <soma/programs/finite_check.hpp>
#include <soma/programs/graph/call_graph.hpp>
#include <soma/programs/graph/executables.hpp>
#include <soma/programs/graph/graph_key.hpp>
#include <soma/programs/graph/graph_words.hpp>
#include <soma/programs/run_mode.hpp>
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

namespace SOMA_NAMESPACE {

class NeuronCoreDevice final : public Device {
 public:
  using Count = OperatorCount;

  // Used by make_device(). Core and programs outlive the device. Error neuroncore.run_options.
  NeuronCoreDevice(neuroncore::Core& core, std::span<const OperatorProgram> programs,
                   const RunOptions& options = {});
  // Runs what was recorded. If that fails, the error is logged, and reading the results is Error
  // neuroncore.not_run.
  SOMA_INLINE ~NeuronCoreDevice() override;
  NeuronCoreDevice(const NeuronCoreDevice&) = delete;
  NeuronCoreDevice& operator=(const NeuronCoreDevice&) = delete;

  // The program of an operator: its own, or the built-in one; nullptr: it has none.
  const Program* program_of(const Operator& op) const;

  // Errors neuroncore.* of the program; of a device that is not eager, executable.missing and
  // executable.stream; of a lazy device, errors of calls that were recorded earlier too.
  SOMA_INLINE void run(const Operator& op, const OperatorCall& call) override;

  // Lazy mode: runs all recorded calls as one launch. In other modes nothing waits, and the call
  // only counts a step.
  void mark_step();

  // From here on, function(name) is called after each launch, when all of it has ended: with the
  // operator's name, or "graph". There core().take_recorded() gives the instructions of what ran
  // since the last time. nullptr: nothing is called any more.
  template <class Function>
  void after_program(Function function) {
    after_program_ = {core_.context().heap(), std::move(function)};
  }
  void after_program(std::nullptr_t);
  // From here on, function(operator, call) is called after each call that was a launch of its own:
  // step by step through an eager device. nullptr: nothing is called any more.
  template <class Function>
  void on_operator(Function function) {
    on_operator_ = {core_.context().heap(), std::move(function)};
  }
  void on_operator(std::nullptr_t);

  // The machine, and what its core does otherwise than by default and shows in numbers. The mode is
  // no part of it: bits do not depend on it.
  SOMA_INLINE std::string name() const override;

  neuroncore::Core& core() { return core_; }
  const RunOptions& options() const { return options_; }
  // In the order in which they ran first.
  const std::vector<Count>& counts() const { return counts_; }
  // Launches, cuts and what caused them, calls that were removed.
  RunCounts runs() const;
  // Nothing of an eager device, which makes no graphs.
  GraphLog* graph_log() override { return options_.mode == RunMode::eager ? nullptr : &graph_log_; }
  ExecutableCache& executables() { return executables_; }
  const ExecutableCache& executables() const { return executables_; }
  // In a dry run, how many tensors operators read that ran on the host in between: numbers that
  // their results may depend on, and that nobody computed.
  std::uint64_t host_reads() const { return host_reads_; }

 private:
  // Nothing stays under way, however a launch ends.
  class Launch {
   public:
    explicit Launch(neuroncore::Core& core) : core_(core) {}
    ~Launch();
    void finish();

   private:
    neuroncore::Core& core_;
    bool finished_ = false;
  };

  static bool sized_by_data(const Operator& op, const OperatorCall& call);

  void run_on_host(const Operator& op, const OperatorCall& call, Count& count);

  // The program, within a launch; its tiles are given back.
  void run_program(const Operator& op, const OperatorCall& call, Count& count);
  void launch_one(const Operator& op, const OperatorCall& call, Count& count);
  // Ends a launch of one call. Its instructions are in the record from `recorded` on.
  void ended(const Operator& op, const OperatorCall& call, std::size_t recorded,
             const FiniteCheck& finite, const Program* program);
  PredictedTime predict(std::span<const neuroncore::Instruction> record) const;
  void end_record();

  // Runs the recorded calls. If a program fails, the results of all later calls cannot be read.
  void cut(std::string_view cause);
  OperatorCall call_of(RecordedCall& call);
  // Its writes were counted when it was recorded; a program also counts one where it takes the
  // address of what it only reads.
  void run_recorded(RecordedCall& call);
  // Error executable.missing where nothing may be compiled: nothing has run then.
  GraphMiss reason_of_miss(const GraphKey& key, const std::vector<RecordedCall>& calls) const;
  const Executable& compile(GraphKey key, GraphMiss miss, const std::vector<RecordedCall>& calls,
                            std::span<const neuroncore::Instruction> record);
  // One key is one instruction stream: where instructions are recorded, each run shows it. Error
  // executable.stream.
  static void check_stream(const Executable& known,
                           std::span<const neuroncore::Instruction> record);
  void count_cut(std::string_view cause);
  // Log lines: a graph that grows too long, and a compilation in a run that should have settled.
  void warn_of_length();
  void warn_of_compilation(const GraphMiss& miss) const;

  // Marks results whose calls will never run.
  class NotRun final : public PendingCalls {
   public:
    SOMA_INLINE void run_pending(std::uintptr_t) override;
  };
  static PendingCalls& not_run();

  // One instruction, which reads and writes device memory by itself.
  void run_on_processors(const Operator& op, const OperatorCall& call, Count& count);

  Count& count_of(const Operator& op);
  neuroncore::Core& core_;
  std::span<const OperatorProgram> programs_;
  RunOptions options_;
  std::vector<Count> counts_;
  RunCounts runs_;
  CallGraph graph_;
  ExecutableCache executables_;
  GraphLog graph_log_;
  bool cutting_ = false, warned_ = false;
  std::uint64_t steps_ = 0;  // mark_step()
  std::uint64_t host_reads_ = 0;
  Callback<void(std::string_view)> after_program_;
  Callback<void(const Operator&, const OperatorCall&)> on_operator_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/programs/impl/neuroncore_device.ipp>
#endif
