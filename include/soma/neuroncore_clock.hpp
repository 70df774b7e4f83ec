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

namespace SOMA_NAMESPACE::neuroncore {

// The function for RunOptions::predict. Errors as timeline().
PredictedTime predict_time(std::span<const Instruction> record, const Machine& machine);

// A report on the core's recording (CoreOptions::record). The core must not record while the report
// is in use. Errors neuroncore.record.
Report report(const Core& core, ReportOptions options = {});
// A report on a record that was taken from a core. The record must outlive the report.
Report report(const Record& record, const Machine& machine, const ReportOptions& options = {});
Report report(Record&& record, const Machine& machine, const ReportOptions& options = {}) = delete;

// A report on everything that a device ran since the core's record was last taken: a training step,
// operator by operator. Holds that record.
class StepReport {
 public:
  // Errors neuroncore.record.
  explicit StepReport(NeuronCoreDevice& device, ReportOptions options = {});
  StepReport(const StepReport&) = delete;
  StepReport& operator=(const StepReport&) = delete;

  const Record& record() const { return record_; }
  // Summary::operators has the time of each operator; its calls run one after the other.
  const Report& report() const { return report_; }

 private:
  static ReportOptions with_memory(NeuronCoreDevice& device, ReportOptions options);

  Record record_;
  Report report_;
};

// Writes files that appear whole or not at all; an old file stays until the new one is complete.
// Error file.write.
void write_trace(std::string_view path, const Report& report);
void write_page(std::string_view path, const Report& report);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/impl/neuroncore_clock.ipp>
#endif
