#pragma once
// The functions of report.hpp.

#include <soma/neuroncore/clock/report.hpp>

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

SOMA_INLINE Report::Report(std::span<const Instruction> record, const RecordNames& names,
                           const Machine& machine, const ReportOptions& options)
    : record_(record),
      names_(names),
      options_(options),
      timeline_(soma::neuroncore::timeline(record, machine, options.clock)),
      summary_(soma::neuroncore::summary(record, names, machine, timeline_)) {
  notes_.machine = machine.name;
  notes_.estimate = machine.estimate;
  for (const Advice& found : advice(record, machine, timeline_, options.clock))
    notes_.advice.push_back(to_string(found));
  if (options.hbm_in_use > machine.hbm_bytes)
    notes_.warnings.push_back(std::to_string(options.hbm_in_use) +
                              " bytes of device memory are in use, " + notes_.machine + " has " +
                              std::to_string(machine.hbm_bytes) + " for a core");
}

SOMA_INLINE std::string Report::text() const {
  return detail::report_text(summary_, notes_, options_.most_ranks);
}

SOMA_INLINE std::string Report::json() const { return detail::report_json(summary_, notes_); }

SOMA_INLINE std::string Report::text_timeline() const {
  return detail::text_timeline(record_, timeline_, notes_.estimate);
}

SOMA_INLINE std::string Report::trace() const {
  return detail::TraceWriter(record_, names_, timeline_, events(), notes_.estimate).run();
}

SOMA_INLINE std::string Report::html() const {
  return detail::PageWriter(record_, names_, timeline_, events(), summary_, notes_,
                            options_.most_ranks)
      .run();
}

SOMA_INLINE detail::Events Report::events() const {
  return detail::EventsOf(record_, names_, timeline_).run(options_.most_events);
}

}  // namespace SOMA_NAMESPACE::neuroncore
