#pragma once
// Events: the slices of a trace, row by row. No two slices of a row overlap: viewers hide the inner
// one. Used by the trace and by the page.

#include <soma/neuroncore/clock/summary.hpp>
#include <soma/neuroncore/clock/text_parts.hpp>
#include <soma/neuroncore/clock/timeline.hpp>
#include <soma/neuroncore/order/record.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

// A slice in the row of a region or of the operators: work between two times, in whole ns.
struct Span {
  std::int64_t start = 0, end = 0;
  std::uint32_t name = 0;  // for an operator's call: its index
};
struct SpanRow {
  std::string name;
  std::vector<Span> spans;
};

// The row of an engine or queue. A transfer is drawn from the end of the one before it, because
// transfers overlap.
class LaneRows {
 public:
  Span next(const Instruction& instruction, const Timed& timed);

 private:
  std::array<std::int64_t, lane_count> ended_{};
};

struct Events {
  // Indices of instructions in the order in which they began; the first `kept` are shown.
  std::span<const std::uint32_t> order;
  std::size_t kept = 0;
  std::vector<SpanRow> regions;
  std::vector<Span> calls;
  // The hidden instructions of each lane, and the hidden spans.
  std::array<std::uint64_t, lane_count> instructions_left_out{};
  std::uint64_t spans_left_out = 0;

  std::uint64_t left_out() const;
  // "12 slices left out: tensor 7, dma queue 0 5"; empty if nothing is hidden.
  std::string left_out_text() const;
};

// Merges adjoining spans of one row.
void merge(std::vector<Span>& spans);

class EventsOf {
 public:
  EventsOf(std::span<const Instruction> record, const RecordNames& names, const Timeline& timeline)
      : record_(record), names_(names), timeline_(timeline) {}

  // Keeps at most `most` slices: the earliest instructions, and spans for at most a third.
  Events run(std::size_t most);

 private:
  void cut(std::vector<Span>& spans, std::size_t& room);

  // A region's spans cover its instructions, each time the program was in the region.
  void regions();
  bool inside(std::uint32_t region, std::uint32_t outer) const;

  // One row: a call begins no earlier than the one before it ends.
  void calls();

  std::span<const Instruction> record_;
  const RecordNames& names_;
  const Timeline& timeline_;
  Events events_;
};

std::string line_text(const SourceLine& source);

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/events.ipp>
#endif
