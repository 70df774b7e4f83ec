#pragma once
// Report: the estimated times of a record's instructions, and their summary, as text, as JSON, as a
// trace and as a page. The estimates follow published rules; every output says so and names the
// anchors that show their accuracy (docs/neuroncore.md).
//
//   auto core = neuroncore::make_core(context, neuroncore::trn1(), {.record = true});
//   kernel(core, ...);
//   std::puts(neuroncore::report(core).text().c_str());     // soma/neuroncore_clock.hpp

#include <soma/neuroncore/clock/advice.hpp>
#include <soma/neuroncore/clock/events.hpp>
#include <soma/neuroncore/clock/page.hpp>
#include <soma/neuroncore/clock/report_text.hpp>
#include <soma/neuroncore/clock/summary.hpp>
#include <soma/neuroncore/clock/timeline.hpp>
#include <soma/neuroncore/clock/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

struct ReportOptions {
  ClockOptions clock{};
  std::uint64_t hbm_in_use = 0;  // bytes of device memory; more than the machine has: a warning
  std::size_t most_events = 200'000;  // slices of a trace or page; the rest is counted and named
  std::size_t most_ranks = 24;        // entries of the ranked list, in text and page
};

// Record and names must outlive the report.
class Report {
 public:
  // Errors neuroncore.record.
  Report(std::span<const Instruction> record, const RecordNames& names, const Machine& machine,
         const ReportOptions& options = {});
  Report(std::span<const Instruction> record, RecordNames&& names, const Machine& machine,
         const ReportOptions& options = {}) = delete;  // the names would be gone

  const Timeline& timeline() const { return timeline_; }
  const Summary& summary() const { return summary_; }
  double ns() const { return timeline_.ns; }

  // The lines have at most 100 columns, except advice and warnings.
  std::string text() const;
  std::string json() const;
  // The use of each engine and queue over time, in lines of at most 100 columns.
  std::string text_timeline() const;
  // For ui.perfetto.dev.
  std::string trace() const;
  // One page that is complete in itself.
  std::string html() const;

 private:
  detail::Events events() const;

  std::span<const Instruction> record_;
  const RecordNames& names_;
  ReportOptions options_;
  Timeline timeline_;
  Summary summary_;
  detail::ReportNotes notes_;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/report.ipp>
#endif
