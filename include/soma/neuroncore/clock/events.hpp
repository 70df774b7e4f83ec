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

namespace soma::neuroncore::detail {

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
  Span next(const Instruction& instruction, const Timed& timed) {
    std::int64_t& ended = ended_[instruction.position.lane];
    const Span span{(std::max)(ended, whole_ns(timed.start)), whole_ns(timed.end), 0};
    ended = span.end;
    return span;
  }

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

  std::uint64_t left_out() const {
    std::uint64_t sum = spans_left_out;
    for (const std::uint64_t count : instructions_left_out) sum += count;
    return sum;
  }
  // "12 slices left out: tensor 7, dma queue 0 5"; empty if nothing is hidden.
  std::string left_out_text() const {
    if (left_out() == 0) return {};
    std::string text = std::to_string(left_out()) + " slices left out, the latest:";
    const char* separator = " ";
    const auto add = [&](const std::string& name, std::uint64_t count) {
      if (count == 0) return;
      text.append(separator).append(name).append(" ").append(std::to_string(count));
      separator = ", ";
    };
    for (std::size_t lane = 0; lane < lane_count; ++lane)
      add(lane_name(lane), instructions_left_out[lane]);
    add("regions and operators", spans_left_out);
    return text;
  }
};

// Merges adjoining spans of one row.
inline void merge(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.start < b.start; });
  std::size_t kept = 0;
  for (const Span& span : spans) {
    if (kept != 0 && span.start <= spans[kept - 1].end)
      spans[kept - 1].end = (std::max)(spans[kept - 1].end, span.end);
    else
      spans[kept++] = span;
  }
  spans.resize(kept);
}

class EventsOf {
 public:
  EventsOf(std::span<const Instruction> record, const RecordNames& names, const Timeline& timeline)
      : record_(record), names_(names), timeline_(timeline) {}

  // Keeps at most `most` slices: the earliest instructions, and spans for at most a third.
  Events run(std::size_t most) {
    events_.order = timeline_.order;
    regions();
    calls();
    std::size_t room = most / 3;
    cut(events_.calls, room);
    for (SpanRow& row : events_.regions) cut(row.spans, room);
    std::size_t spans = events_.calls.size();
    for (const SpanRow& row : events_.regions) spans += row.spans.size();
    events_.kept = (std::min)(record_.size(), most - spans);
    for (std::size_t i = events_.kept; i < record_.size(); ++i)
      ++events_.instructions_left_out[record_[events_.order[i]].position.lane];
    return std::move(events_);
  }

 private:
  void cut(std::vector<Span>& spans, std::size_t& room) {
    const std::size_t kept = (std::min)(room, spans.size());
    events_.spans_left_out += spans.size() - kept;
    spans.resize(kept);
    room -= kept;
  }

  // A region's spans cover its instructions, each time the program was in the region.
  void regions() {
    events_.regions.resize(names_.regions.size());
    for (std::size_t i = 0; i < events_.regions.size(); ++i)
      events_.regions[i].name = names_.path(static_cast<std::uint32_t>(i + 1));
    std::uint32_t current = 0;
    for (std::size_t i = 0; i < record_.size(); ++i) {
      const std::uint32_t region = record_[i].region;
      const Timed& timed = timeline_.instructions[i];
      const Span span{whole_ns(timed.start), whole_ns(timed.end), 0};
      for (std::uint32_t at = region; at != 0; at = names_.regions[at - 1].parent) {
        auto& spans = events_.regions[at - 1].spans;
        if (spans.empty() || !inside(current, at)) {
          spans.push_back(span);
        } else {
          spans.back().start = (std::min)(spans.back().start, span.start);
          spans.back().end = (std::max)(spans.back().end, span.end);
        }
      }
      current = region;
    }
    for (SpanRow& row : events_.regions) merge(row.spans);
  }
  bool inside(std::uint32_t region, std::uint32_t outer) const {
    for (; region != 0; region = names_.regions[region - 1].parent)
      if (region == outer) return true;
    return false;
  }

  // One row: a call begins no earlier than the one before it ends.
  void calls() {
    std::uint32_t current = 0;
    for (std::size_t i = 0; i < record_.size(); ++i) {
      if (record_[i].call == 0) continue;
      const Timed& timed = timeline_.instructions[i];
      const std::int64_t start = whole_ns(timed.start), end = whole_ns(timed.end);
      auto& calls = events_.calls;
      if (record_[i].call != current) {
        current = record_[i].call;
        const std::int64_t first = calls.empty() ? start : (std::max)(start, calls.back().end);
        calls.push_back({first, (std::max)(first, end), current - 1});
      } else {
        calls.back().end = (std::max)(calls.back().end, end);
      }
    }
  }

  std::span<const Instruction> record_;
  const RecordNames& names_;
  const Timeline& timeline_;
  Events events_;
};

inline std::string line_text(const SourceLine& source) {
  if (source.line == 0 || source.file == nullptr) return {};
  return std::string(source.file) + ":" + std::to_string(source.line);
}

}  // namespace soma::neuroncore::detail
