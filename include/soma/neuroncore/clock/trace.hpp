#pragma once
// A timeline as a trace in Chrome's JSON format, which ui.perfetto.dev opens: a row for each
// engine, DMA queue and region and one for operators, arrows from an instruction to the one that
// waited for it, counters of the memory in use. Used by Report.

#include <soma/neuroncore/clock/events.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

class TraceWriter {
 public:
  TraceWriter(std::span<const Instruction> record, const RecordNames& names,
              const Timeline& timeline, const Events& events, std::string_view estimate)
      : record_(record), names_(names), timeline_(timeline), events_(events), estimate_(estimate) {}

  std::string run();

 private:
  static constexpr std::size_t operators_row = lane_count + 1, first_region_row = lane_count + 2;
  static std::size_t lane_row(std::size_t lane) { return lane + 1; }

  JsonWriter& event(std::string_view phase, std::size_t row, std::string_view name);
  void name(std::string_view kind, std::size_t row, std::string_view name);
  void row(std::size_t row, std::string_view label);
  void slice(std::size_t row, std::string_view label, std::int64_t start, std::int64_t end);

  void spans();

  void instructions();
  void arguments(const Instruction& instruction, const Timed& timed);
  static std::string_view bound_of(Bound bound);
  // An arrow from the end of one slice to the beginning of another. Its start lies inside the first
  // slice, otherwise it is not drawn.
  void arrow(std::uint32_t index, const Timed& timed, std::int64_t to);
  void counter(std::string_view label, double ns, std::uint32_t bytes);
  void left_out();

  std::span<const Instruction> record_;
  const RecordNames& names_;
  const Timeline& timeline_;
  const Events& events_;
  std::string_view estimate_;
  JsonWriter json_;
};

// The use of each engine and queue, in at most 100 columns: one character for each part of the
// time.
std::string text_timeline(std::span<const Instruction> record, const Timeline& timeline,
                          std::string_view estimate);

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/trace.ipp>
#endif
