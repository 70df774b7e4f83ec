#include "training/compute.hpp"

#include "training/arguments.hpp"

#include <soma/base/fixed.hpp>
#include <soma/neuroncore_clock.hpp>

#include <cstdint>
#include <iostream>
#include <string_view>

namespace {

// Receives warnings, for example of an operator that has no program and runs on the host.
constexpr soma::LogSink warnings{nullptr,
                                 [](void*, soma::LogLevel level, std::string_view message) {
                                   if (level >= soma::LogLevel::warning)
                                     std::cerr << message << '\n';
                                 }};

soma::RunMode mode_of(const std::string& name) {
  return name == "lazy"  ? soma::RunMode::lazy
         : name == "jit" ? soma::RunMode::jit
                         : soma::RunMode::eager;
}

}  // namespace

Compute::Compute(const ComputeOptions& options, int usual_threads)
    : context_(soma::make_context(
          {.log = warnings,
           .threads = options.threads != 0 ? options.threads : usual_threads,
           .math = options.math == "portable" ? soma::Math::portable : soma::Math::fast})) {
  if (options.device != "neuroncore") {
    if (options.predict) throw UsageError("--predict needs --device neuroncore");
    if (options.run_mode != "eager") throw UsageError("--run-mode needs --device neuroncore");
    return;
  }
  namespace nc = soma::neuroncore;
  core_.reset(new nc::Core(nc::make_core(context_, nc::trn1(), {.record = options.predict})));
  soma::RunOptions run{.mode = mode_of(options.run_mode)};
  if (options.predict) {
    run.predict = &nc::predict_time;
    run.keep_record = false;
  }
  device_.reset(new soma::NeuronCoreDevice(nc::make_device(*core_, run)));
  context_.set_device(device_.get());
}

void Compute::report(std::ostream& out) const {
  if (core_ == nullptr) return;
  const soma::neuroncore::Statistics& all = core_->statistics();
  out << "  device            " << core_->machine().name << ':';
  std::uint64_t instructions = 0;
  for (std::size_t engine = 0; engine < soma::neuroncore::engine_count; ++engine) {
    out << (engine == 0 ? " " : ", ") << all.of_engine[engine] << ' '
        << to_string(static_cast<soma::neuroncore::Engine>(engine));
    instructions += all.of_engine[engine];
  }
  out << " instructions (" << instructions << "), " << (all.hbm_bytes_read >> 20) << " MiB read, "
      << (all.hbm_bytes_written >> 20) << " MiB written\n";
  const soma::RunCounts runs = device_->runs();
  if (device_->options().mode != soma::RunMode::eager)
    out << "  launches          " << runs.launches << ", " << device_->executables().compilations()
        << " compiled, " << device_->executables().hits() << " hits, " << runs.removed
        << " calls removed\n";
  if (runs.predicted.ns > 0)
    out << "  predicted         " << soma::fixed(runs.predicted.ns * 1e-6, 2)
        << " ms of the accelerator, an estimate by published rules\n";
  for (const soma::NeuronCoreDevice::Count& count : device_->counts())
    if (count.host != 0)
      out << "  on the host       " << count.name << ", " << count.host << " times\n";
}
