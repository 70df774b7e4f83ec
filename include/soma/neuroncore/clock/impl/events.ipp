#pragma once
// The functions of events.hpp.

#include <soma/neuroncore/clock/events.hpp>

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

SOMA_INLINE Span LaneRows::next(const Instruction& instruction, const Timed& timed) {
  std::int64_t& ended = ended_[instruction.position.lane];
  const Span span{(std::max)(ended, whole_ns(timed.start)), whole_ns(timed.end), 0};
  ended = span.end;
  return span;
}

SOMA_INLINE std::uint64_t Events::left_out() const {
  std::uint64_t sum = spans_left_out;
  for (const std::uint64_t count : instructions_left_out) sum += count;
  return sum;
}

SOMA_INLINE std::string Events::left_out_text() const {
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

SOMA_INLINE void merge(std::vector<Span>& spans) {
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

SOMA_INLINE Events EventsOf::run(std::size_t most) {
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

SOMA_INLINE void EventsOf::cut(std::vector<Span>& spans, std::size_t& room) {
  const std::size_t kept = (std::min)(room, spans.size());
  events_.spans_left_out += spans.size() - kept;
  spans.resize(kept);
  room -= kept;
}

SOMA_INLINE void EventsOf::regions() {
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

SOMA_INLINE bool EventsOf::inside(std::uint32_t region, std::uint32_t outer) const {
  for (; region != 0; region = names_.regions[region - 1].parent)
    if (region == outer) return true;
  return false;
}

SOMA_INLINE void EventsOf::calls() {
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

SOMA_INLINE std::string line_text(const SourceLine& source) {
  if (source.line == 0 || source.file == nullptr) return {};
  return std::string(source.file) + ":" + std::to_string(source.line);
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
