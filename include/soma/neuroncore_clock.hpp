#pragma once
// The run time of a NeuronCore program by published rules: a report on the instructions that a core
// recorded, and its trace and page as files. Include it beside soma/neuroncore.hpp; no header of
// the host includes it.

#include <soma/io/atomic_file.hpp>
#include <soma/neuroncore.hpp>
#include <soma/neuroncore/clock/busy.hpp>
#include <soma/neuroncore/clock/report.hpp>

#include <span>
#include <string_view>

namespace soma::neuroncore {

// The function for RunOptions::predict. Errors as timeline().
inline PredictedTime predict_time(std::span<const Instruction> record, const Machine& machine) {
  const Timeline timed = timeline(record, machine);
  return {.ns = timed.ns, .busy_ns = busy_ns(record, timed, machine)};
}

// A report on the core's recording (CoreOptions::record). The core must not record while the report
// is in use. Errors neuroncore.record.
inline Report report(const Core& core, ReportOptions options = {}) {
  if (options.hbm_in_use == 0) options.hbm_in_use = core.context().heap().peak_bytes();
  return Report(core.recorded(), core.record_names(), core.machine(), options);
}
// A report on a record that was taken from a core. The record must outlive the report.
inline Report report(const Record& record, const Machine& machine,
                     const ReportOptions& options = {}) {
  return Report({record.instructions.data(), record.instructions.size()}, record.names, machine,
                options);
}
Report report(Record&& record, const Machine& machine, const ReportOptions& options = {}) = delete;

// A report on everything that a device ran since the core's record was last taken: a training step,
// operator by operator. Holds that record.
class StepReport {
 public:
  // Errors neuroncore.record.
  explicit StepReport(NeuronCoreDevice& device, ReportOptions options = {})
      : record_(device.core().take_recorded()),
        report_(soma::neuroncore::report(record_, device.core().machine(),
                                         with_memory(device, options))) {}
  StepReport(const StepReport&) = delete;
  StepReport& operator=(const StepReport&) = delete;

  const Record& record() const { return record_; }
  // Summary::operators has the time of each operator; its calls run one after the other.
  const Report& report() const { return report_; }

 private:
  static ReportOptions with_memory(NeuronCoreDevice& device, ReportOptions options) {
    if (options.hbm_in_use == 0) options.hbm_in_use = device.core().context().heap().peak_bytes();
    return options;
  }

  Record record_;
  Report report_;
};

// Writes files that appear whole or not at all; an old file stays until the new one is complete.
// Error file.write.
inline void write_trace(std::string_view path, const Report& report) {
  AtomicFile file("write_trace", path);
  file.write(report.trace());
  file.commit();
}
inline void write_page(std::string_view path, const Report& report) {
  AtomicFile file("write_page", path);
  file.write(report.html());
  file.commit();
}

}  // namespace soma::neuroncore
