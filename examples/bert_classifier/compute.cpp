#include "bert_classifier/compute.hpp"

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

}  // namespace

Compute::Compute(const ComputeOptions& options)
    : context_(soma::make_context(
          {.log = warnings,
           .threads = options.threads,
           .math = options.math == "portable" ? soma::Math::portable : soma::Math::fast})) {
  if (options.device != "neuroncore") return;
  core_.reset(new soma::neuroncore::Core(soma::neuroncore::make_core(context_)));
  device_.reset(new soma::NeuronCoreDevice(soma::neuroncore::make_device(*core_)));
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
  for (const soma::NeuronCoreDevice::Count& count : device_->counts())
    if (count.host != 0)
      out << "  on the host       " << count.name << ", " << count.host << " times\n";
}
