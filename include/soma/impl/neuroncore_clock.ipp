#pragma once
// The functions of neuroncore_clock.hpp.

#include <soma/neuroncore_clock.hpp>

#include <soma/io/atomic_file.hpp>
#include <soma/neuroncore.hpp>
#include <soma/neuroncore/clock/busy.hpp>
#include <soma/neuroncore/clock/report.hpp>

#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE PredictedTime predict_time(std::span<const Instruction> record,
                                       const Machine& machine) {
  const Timeline timed = timeline(record, machine);
  return {.ns = timed.ns, .busy_ns = busy_ns(record, timed, machine)};
}

SOMA_INLINE Report report(const Core& core, ReportOptions options) {
  if (options.hbm_in_use == 0) options.hbm_in_use = core.hbm_high_water();
  return Report(core.recorded(), core.record_names(), core.machine(), options);
}

SOMA_INLINE Report report(const Record& record, const Machine& machine,
                          const ReportOptions& options) {
  return Report({record.instructions.data(), record.instructions.size()}, record.names, machine,
                options);
}

SOMA_INLINE StepReport::StepReport(NeuronCoreDevice& device, ReportOptions options)
    : record_(device.core().take_recorded()),
      report_(soma::neuroncore::report(record_, device.core().machine(),
                                       with_memory(device, options))) {}

SOMA_INLINE ReportOptions StepReport::with_memory(NeuronCoreDevice& device, ReportOptions options) {
  if (options.hbm_in_use == 0) options.hbm_in_use = device.core().hbm_high_water();
  return options;
}

SOMA_INLINE void write_trace(std::string_view path, const Report& report) {
  AtomicFile file("write_trace", path);
  file.write(report.trace());
  file.commit();
}

SOMA_INLINE void write_page(std::string_view path, const Report& report) {
  AtomicFile file("write_page", path);
  file.write(report.html());
  file.commit();
}

}  // namespace SOMA_NAMESPACE::neuroncore
