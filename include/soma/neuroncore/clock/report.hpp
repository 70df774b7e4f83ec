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

namespace soma::neuroncore {

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
         const ReportOptions& options = {})
      : record_(record),
        names_(names),
        options_(options),
        timeline_(soma::neuroncore::timeline(record, machine, options.clock)),
        summary_(soma::neuroncore::summary(record, names, machine, timeline_)) {
    notes_.machine = machine.name;
    notes_.advice = advice(summary_);
    if (options.hbm_in_use > machine.hbm_bytes)
      notes_.warnings.push_back(std::to_string(options.hbm_in_use) +
                                " bytes of device memory are in use, " + notes_.machine + " has " +
                                std::to_string(machine.hbm_bytes) + " for a core");
  }
  Report(std::span<const Instruction> record, RecordNames&& names, const Machine& machine,
         const ReportOptions& options = {}) = delete;  // the names would be gone

  const Timeline& timeline() const { return timeline_; }
  const Summary& summary() const { return summary_; }
  double ns() const { return timeline_.ns; }

  // The lines have at most 100 columns, except advice and warnings.
  std::string text() const { return detail::report_text(summary_, notes_, options_.most_ranks); }
  std::string json() const { return detail::report_json(summary_, notes_); }
  // The use of each engine and queue over time, in lines of at most 100 columns.
  std::string text_timeline() const { return detail::text_timeline(record_, timeline_); }
  // For ui.perfetto.dev.
  std::string trace() const {
    return detail::TraceWriter(record_, names_, timeline_, events()).run();
  }
  // One page that is complete in itself.
  std::string html() const {
    return detail::PageWriter(record_, names_, timeline_, events(), summary_, notes_,
                              options_.most_ranks)
        .run();
  }

 private:
  detail::Events events() const {
    return detail::EventsOf(record_, names_, timeline_).run(options_.most_events);
  }

  std::span<const Instruction> record_;
  const RecordNames& names_;
  ReportOptions options_;
  Timeline timeline_;
  Summary summary_;
  detail::ReportNotes notes_;
};

}  // namespace soma::neuroncore
