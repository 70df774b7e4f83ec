#pragma once
// The functions of neuroncore_device.hpp.

#include <soma/programs/neuroncore_device.hpp>

#include <soma/neuroncore/core.hpp>
#include <soma/neuroncore/faults.hpp>
#include <soma/ops/device.hpp>
#include <soma/ops/program.hpp>
#include <soma/ops/run.hpp>
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

SOMA_INLINE NeuronCoreDevice::NeuronCoreDevice(neuroncore::Core& core,
                                               std::span<const OperatorProgram> programs,
                                               const RunOptions& options)
    : core_(core),
      programs_(programs),
      options_(options),
      graph_(core.context().heap(),
             [this](std::string_view used) { cut("read by the host: " + std::string(used)); }),
      executables_(options.cache_bytes) {
  check_run_options(options, core.options().compute);
}

SOMA_INLINE NeuronCoreDevice::~NeuronCoreDevice() {
#if SOMA_HAS_EXCEPTIONS
  try {
    cut("the device ends");
  } catch (const Error& error) {  // results of calls that did not run are marked
    core_.context().log(LogLevel::error, "NeuronCoreDevice: recorded calls did not run: " +
                                             std::string(error.what()));
  }
#else
  cut("the device ends");
#endif
}

SOMA_INLINE const Program* NeuronCoreDevice::program_of(const Operator& op) const {
  if (op.program != nullptr) return op.program;
  for (const OperatorProgram& entry : programs_)
    if (entry.op->name == op.name) return &entry.program;
  return nullptr;
}

SOMA_INLINE void NeuronCoreDevice::run(const Operator& op, const OperatorCall& call) {
  if (op.makes_views) return op.host(call);  // addresses only: nothing to run
  Count& count = count_of(op);
  if (count.program == nullptr && op.on_processors != nullptr)
    return run_on_processors(op, call, count);
  if (count.program == nullptr) return run_on_host(op, call, count);
  const bool nothing = std::all_of(call.outputs.begin(), call.outputs.end(),
                                   [](const Tensor& output) { return output.elements() == 0; });
  if (nothing && op.outputs != 0) {
    ++count.programs;
    return;
  }
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if ((count.program->host_inputs >> i & 1) != 0 && call.inputs[i].defined())
      call.inputs[i].storage().before_read();
  if (options_.mode == RunMode::eager) return launch_one(op, call, count);
  if (!has_key(op, call.attributes) || sized_by_data(op, call)) {
    cut(op.name);
    ++runs_.apart;
    return launch_one(op, call, count);
  }
  graph_.add(op, call);
  warn_of_length();
  if (options_.mode == RunMode::jit)
    cut("each operator");
  else if (detail::FindPointer::in(call.attributes))  // means nothing after the call
    cut(op.name);
}

SOMA_INLINE void NeuronCoreDevice::mark_step() {
  cut("mark_step");
  ++steps_;
}

SOMA_INLINE void NeuronCoreDevice::after_program(std::nullptr_t) { after_program_ = {}; }

SOMA_INLINE void NeuronCoreDevice::on_operator(std::nullptr_t) { on_operator_ = {}; }

SOMA_INLINE std::string NeuronCoreDevice::name() const {
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

SOMA_INLINE RunCounts NeuronCoreDevice::runs() const {
  RunCounts runs = runs_;
  runs.removed = graph_.removed();
  return runs;
}

SOMA_INLINE NeuronCoreDevice::Launch::~Launch() {
  if (!finished_) core_.abandon();
}

SOMA_INLINE void NeuronCoreDevice::Launch::finish() {
  core_.finish();
  finished_ = true;
}

SOMA_INLINE bool NeuronCoreDevice::sized_by_data(const Operator& op, const OperatorCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if ((op.row_inputs >> i & 1) != 0 && call.inputs[i].defined()) return true;
  return false;
}

SOMA_INLINE void NeuronCoreDevice::run_on_host(const Operator& op, const OperatorCall& call,
                                               Count& count) {
  cut(op.name);
  // The host could read any type, but programs that the operator's gradient calls could not.
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i];
    if (input.defined() && is_floating(input.dtype()) && !core_.machine().has(input.dtype()))
      neuroncore::rule_broken(op.name, detail::input_name(i), std::string(to_string(input.dtype())),
                              "a type that " + std::string(core_.machine().name) + " has");
  }
  if (count.host++ == 0)
    call.context.log(LogLevel::warning,
                     std::string(op.name) + ": no NeuronCore program, runs on the host");
  if (!core_.options().compute)
    for (const Tensor& input : call.inputs) host_reads_ += input.defined() ? 1u : 0u;
  const FiniteCheck finite(core_, op, call, options_.stop_at_non_finite);
  op.host(call);
  if (options_.mode != RunMode::eager) ++runs_.host;
  finite.check(nullptr);
}

SOMA_INLINE void NeuronCoreDevice::run_program(const Operator& op, const OperatorCall& call,
                                               Count& count) {
  ++count.programs;
  if (!core_.options().compute)  // also zeroes elements that no transfer reaches
    for (const Tensor& output : call.outputs)
      if (output.elements() != 0) std::memset(output.mutable_raw(), 0, output.bytes());
  const neuroncore::Statistics before = core_.statistics();
  {
    const neuroncore::Core::Scope scope(core_);
    const neuroncore::Core::Call named = core_.call(op.name);
    core_.start_high_water();
    count.program->run(core_, call);
  }
  const neuroncore::Statistics& after = core_.statistics();
  for (std::size_t engine = 0; engine < neuroncore::engine_count; ++engine)
    count.instructions[engine] += after.of_engine[engine] - before.of_engine[engine];
  count.hbm_bytes += after.hbm_bytes_read - before.hbm_bytes_read + after.hbm_bytes_written -
                     before.hbm_bytes_written;
  count.dma_buffers += after.dma_buffers - before.dma_buffers;
  count.sbuf_high_water = (std::max)(count.sbuf_high_water, core_.sbuf.high_water());
  count.psum_high_water = (std::max)(count.psum_high_water, core_.psum.high_water());
}

SOMA_INLINE void NeuronCoreDevice::launch_one(const Operator& op, const OperatorCall& call,
                                              Count& count) {
  const FiniteCheck finite(core_, op, call, options_.stop_at_non_finite);
  const std::size_t recorded = core_.recorded().size();
  Launch launch(core_);
  run_program(op, call, count);
  launch.finish();
  ended(op, call, recorded, finite, count.program);
}

SOMA_INLINE void NeuronCoreDevice::ended(const Operator& op, const OperatorCall& call,
                                         std::size_t recorded, const FiniteCheck& finite,
                                         const Program* program) {
  ++runs_.launches;
  runs_.predicted += predict(core_.recorded().subspan(recorded));
  finite.check(program);
  // Either may replace itself: the copies live until they return.
  if (const auto called = on_operator_) called(op, call);
  if (const auto called = after_program_) called(op.name);
  end_record();
}

SOMA_INLINE PredictedTime
NeuronCoreDevice::predict(std::span<const neuroncore::Instruction> record) const {
  if (options_.predict == nullptr || record.empty()) return {};
  return options_.predict(record, core_.machine());
}

SOMA_INLINE void NeuronCoreDevice::end_record() {
  if (!options_.keep_record && !core_.recorded().empty()) (void)core_.take_recorded();
}

SOMA_INLINE void NeuronCoreDevice::cut(std::string_view cause) {
  if (graph_.empty() || cutting_) return;
  const struct Cutting {
    bool& now;
    ~Cutting() { now = false; }
  } cutting{cutting_ = true};
  std::vector<RecordedCall> calls = graph_.take();
  count_cut(cause);
  if (calls.empty()) return;
  std::size_t done = 0;
  const struct Lost {  // marks results as not computed if a call throws
    std::vector<RecordedCall>& calls;
    std::size_t& done;
    ~Lost() {
      for (; done < calls.size(); ++done)
        for (const Tensor& output : calls[done].outputs)
          if (output.defined()) output.storage().set_pending(&not_run(), true);
    }
  } lost{calls, done};
  GraphKey key = graph_key(core_.machine().name, calls);
  if (graph_log_.kept()) log_graph(graph_log_, calls);
  const Executable* known = executables_.find(key);
  GraphMiss miss;
  if (known == nullptr) miss = reason_of_miss(key, calls);
  const std::size_t recorded = core_.recorded().size();
  Launch launch(core_);
  neuroncore::Core::Turns turns(core_);  // a call's first transfers wait for no tile before it
  for (RecordedCall& call : calls) {
    turns.turn();
    run_recorded(call);
    ++done;
  }
  launch.finish();
  ++runs_.launches;
  const auto record = core_.recorded().subspan(recorded);
  if (known == nullptr)
    known = &compile(std::move(key), std::move(miss), calls, record);
  else
    check_stream(*known, record);
  runs_.predicted += known->predicted;
  if (calls.size() == 1 && on_operator_)
    if (const auto called = on_operator_) called(*calls[0].op, call_of(calls[0]));
  if (const auto called = after_program_)
    called(calls.size() == 1 ? calls[0].op->name : std::string_view("graph"));
  end_record();
}

SOMA_INLINE OperatorCall NeuronCoreDevice::call_of(RecordedCall& call) {
  return {core_.context(), call.attributes, call.inputs, call.outputs, call.sequences, call.state};
}

SOMA_INLINE void NeuronCoreDevice::run_recorded(RecordedCall& call) {
  std::vector<std::uint64_t> versions;
  CallGraph::for_storages(
      call, [&](const Storage& storage, bool) { versions.push_back(storage.version()); });
  run_program(*call.op, call_of(call), count_of(*call.op));
  std::size_t at = 0;
  CallGraph::for_storages(
      call, [&](const Storage& storage, bool) { storage.set_version(versions[at++]); });
}

SOMA_INLINE GraphMiss NeuronCoreDevice::reason_of_miss(
    const GraphKey& key, const std::vector<RecordedCall>& calls) const {
  GraphKey::Names names;
  (void)graph_key(core_.machine().name, calls, &names);
  GraphMiss miss = executables_.reason_of_miss(key, names, calls.size());
  if (options_.compile) return miss;
  fail(error_id::executable_missing, "NeuronCoreDevice", "graph",
       miss.differs.empty()
           ? std::to_string(calls.size()) + " calls, from " + std::string(calls[0].op->name)
           : miss.differs + " " + std::to_string(miss.given),
       miss.differs.empty() ? "executables: there are none"
                            : std::to_string(miss.known) + ", as the nearest executable has it");
}

SOMA_INLINE const Executable& NeuronCoreDevice::compile(
    GraphKey key, GraphMiss miss, const std::vector<RecordedCall>& calls,
    std::span<const neuroncore::Instruction> record) {
  warn_of_compilation(miss);
  executables_.count_compilation(std::move(miss));
  Executable executable;
  for (const RecordedCall& call : calls)
    if (std::find(executable.operators.begin(), executable.operators.end(), call.op->name) ==
        executable.operators.end())
      executable.operators.emplace_back(call.op->name);
  executable.key = std::move(key);
  executable.calls = calls.size();
  executable.instructions = record.size();
  if (!record.empty()) executable.stream = stream_hash(record);
  executable.predicted = predict(record);
  executable.peak_bytes = peak_bytes(calls);
  return executables_.add(std::move(executable));
}

SOMA_INLINE void NeuronCoreDevice::check_stream(const Executable& known,
                                                std::span<const neuroncore::Instruction> record) {
  if (record.empty() || known.stream == 0 || stream_hash(record) == known.stream) return;
  fail(error_id::executable_stream, "NeuronCoreDevice", "graph",
       std::to_string(record.size()) + " instructions, others than the " +
           std::to_string(known.instructions) + " of its executable",
       "the same: a program goes by a field that its settings list as a run-time scalar");
}

SOMA_INLINE void NeuronCoreDevice::count_cut(std::string_view cause) {
  for (RunCounts::Cut& cut : runs_.cuts)
    if (cut.cause == cause) {
      ++cut.count;
      return;
    }
  runs_.cuts.push_back({std::string(cause), 1});
}

SOMA_INLINE void NeuronCoreDevice::warn_of_length() {
  if (warned_ || options_.warn_calls == 0 || graph_.size() < options_.warn_calls) return;
  warned_ = true;
  core_.context().log(LogLevel::warning,
                      "NeuronCoreDevice: " + std::to_string(graph_.size()) +
                          " calls are recorded and none has run: is mark_step() missing? "
                          "(RunOptions::warn_calls)");
}

SOMA_INLINE void NeuronCoreDevice::warn_of_compilation(const GraphMiss& miss) const {
  const bool marked = steps_ != 0 || options_.mode != RunMode::lazy;
  const std::uint64_t steps = marked ? steps_ : runs_.launches - 1;  // this launch has ended
  if (steps < options_.settled_steps) return;
  std::string text = "NeuronCoreDevice: compiled a graph of " + std::to_string(miss.calls) +
                     " calls after " + std::to_string(steps) + " steps: ";
  if (miss.differs.empty())
    text.append("no graph resembles it");
  else
    text.append(miss.differs)
        .append(" is ")
        .append(std::to_string(miss.given))
        .append(", ")
        .append(std::to_string(miss.known))
        .append(" in the nearest executable");
  core_.context().log(LogLevel::warning, text.append(" (RunOptions::settled_steps)"));
}

SOMA_INLINE void NeuronCoreDevice::NotRun::run_pending(std::uintptr_t) {
  fail(error_id::neuroncore_not_run, "NeuronCoreDevice", "tensor",
       "the result of a call that did not run", "a result of a graph without failed calls");
}

SOMA_INLINE PendingCalls& NeuronCoreDevice::not_run() {
  static NotRun results;
  return results;
}

SOMA_INLINE void NeuronCoreDevice::run_on_processors(const Operator& op, const OperatorCall& call,
                                                     Count& count) {
  cut(op.name);
  ++count.programs;
  const FiniteCheck finite(core_, op, call, options_.stop_at_non_finite);
  const std::size_t recorded = core_.recorded().size();
  Launch launch(core_);
  {
    const neuroncore::Core::Call named = core_.call(op.name);
    core_.gpsimd.custom_operator(call.inputs, call.outputs, [&] {
      const ProcessorWork work = op.on_processors(call);
      count.hbm_bytes += work.bytes_read + work.bytes_written;
      return neuroncore::CustomWork{work.bytes_read, work.bytes_written, work.nanoseconds};
    });
  }
  launch.finish();
  if (options_.mode != RunMode::eager) ++runs_.apart;
  ++count.instructions[static_cast<std::size_t>(neuroncore::Engine::gpsimd)];
  ended(op, call, recorded, finite, nullptr);
}

SOMA_INLINE auto NeuronCoreDevice::count_of(const Operator& op) -> Count& {
  for (Count& count : counts_)
    if (count.name == op.name && (op.program == nullptr || count.program == op.program))
      return count;
  Count count;
  count.name = op.name;
  count.program = program_of(op);
  counts_.push_back(count);
  return counts_.back();
}

}  // namespace SOMA_NAMESPACE
