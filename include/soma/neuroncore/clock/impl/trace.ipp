#pragma once
// The functions of trace.hpp.

#include <soma/neuroncore/clock/trace.hpp>

#include <soma/neuroncore/clock/events.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE std::string TraceWriter::run() {
  json_.begin('{').key("displayTimeUnit").string("ns").key("otherData").begin('{');
  json_.key("note").string(estimate_);
  json_.key("left out").string(events_.left_out_text()).end('}');
  json_.key("traceEvents").begin('[');
  name("process_name", 0, "NeuronCore, " + std::string(estimate_));
  std::array<bool, lane_count> used{};
  for (const Instruction& instruction : record_) used[instruction.position.lane] = true;
  for (std::size_t lane = 0; lane < lane_count; ++lane)
    if (used[lane]) row(lane_row(lane), lane_name(lane));
  spans();
  instructions();
  left_out();
  return json_.end(']').end('}').take();
}

SOMA_INLINE JsonWriter& TraceWriter::event(std::string_view phase, std::size_t row,
                                           std::string_view name) {
  json_.begin('{').key("ph").string(phase).key("pid").raw("1").key("tid").number(
      std::uint64_t{row});
  return json_.key("name").string(name);
}

SOMA_INLINE void TraceWriter::name(std::string_view kind, std::size_t row, std::string_view name) {
  event("M", row, kind).key("args").begin('{').key("name").string(name).end('}').end('}');
}

SOMA_INLINE void TraceWriter::row(std::size_t row, std::string_view label) {
  name("thread_name", row, label);
  event("M", row, "thread_sort_index").key("args").begin('{').key("sort_index");
  json_.number(std::uint64_t{row}).end('}').end('}');
}

SOMA_INLINE void TraceWriter::slice(std::size_t row, std::string_view label, std::int64_t start,
                                    std::int64_t end) {
  event("X", row, label).key("ts").raw(trace_time(start)).key("dur").raw(trace_time(end - start));
}

SOMA_INLINE void TraceWriter::spans() {
  if (!events_.calls.empty()) row(operators_row, "operators");
  for (const Span& call : events_.calls) {
    slice(operators_row, names_.calls[call.name].name, call.start, call.end);
    json_.end('}');
  }
  for (std::size_t i = 0; i < events_.regions.size(); ++i) {
    const SpanRow& region = events_.regions[i];
    if (region.spans.empty()) continue;
    row(first_region_row + i, "region " + region.name);
    for (const Span& span : region.spans) {
      slice(first_region_row + i, region.name, span.start, span.end);
      json_.end('}');
    }
  }
}

SOMA_INLINE void TraceWriter::instructions() {
  std::vector<bool> shown(record_.size());
  std::uint32_t sbuf = 0, psum = 0;
  LaneRows rows;
  for (std::size_t i = 0; i < events_.kept; ++i) {
    const std::uint32_t index = events_.order[i];
    const Instruction& instruction = record_[index];
    const Timed& timed = timeline_.instructions[index];
    shown[index] = true;
    const Span span = rows.next(instruction, timed);
    slice(lane_row(instruction.position.lane), to_string(instruction.opcode), span.start, span.end);
    arguments(instruction, timed);
    json_.end('}');
    if (timed.cause != Timed::nobody && shown[timed.cause] &&
        (timed.bound == Bound::semaphore || timed.bound == Bound::port))
      arrow(index, timed, span.start);
    if (i == 0 || instruction.sbuf_used != sbuf)
      counter("SBUF, bytes a partition", timed.start, sbuf = instruction.sbuf_used);
    if (i == 0 || instruction.psum_used != psum)
      counter("PSUM, bytes a partition", timed.start, psum = instruction.psum_used);
  }
}

SOMA_INLINE void TraceWriter::arguments(const Instruction& instruction, const Timed& timed) {
  const auto text = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) json_.key(key).string(value);
  };
  json_.key("args").begin('{').key("number").number(std::uint64_t{instruction.position.number});
  const CostFields& cost = instruction.cost;
  json_.key("size").string("[" + std::to_string(cost.partitions) + ", " +
                           std::to_string(cost.free_size) + "]");
  if (instruction.position.lane >= 4) {
    json_.key("bytes").number(cost.bytes);
    json_.key("buffers").number(std::uint64_t{cost.buffers});
  }
  text("line", line_text(instruction.source));
  text("region", names_.path(instruction.region));
  if (instruction.call != 0) text("operator", names_.calls[instruction.call - 1].name);
  std::string cause(bound_of(timed.bound));
  if (timed.cause != Timed::nobody) {
    const Position at = record_[timed.cause].position;
    cause.append(": number ").append(std::to_string(at.number)).append(" of ");
    cause.append(lane_name(at.lane));
  }
  text("waited for", cause);
  json_.end('}');
}

SOMA_INLINE std::string_view TraceWriter::bound_of(Bound bound) {
  constexpr std::array<std::string_view, bound_count> names{
      "launch", "own previous", "own result", "semaphore", "port", "dma engines", "descriptors"};
  return names[static_cast<std::size_t>(bound)];
}

SOMA_INLINE void TraceWriter::arrow(std::uint32_t index, const Timed& timed, std::int64_t to) {
  const Timed& cause = timeline_.instructions[timed.cause];
  const std::int64_t start = whole_ns(cause.start);
  const std::int64_t from = (std::max)(start, whole_ns(cause.end) - 1);
  event("s", lane_row(record_[timed.cause].position.lane), "wait").key("cat").string("wait");
  json_.key("id").number(std::uint64_t{index}).key("ts").raw(trace_time(from)).end('}');
  event("f", lane_row(record_[index].position.lane), "wait").key("cat").string("wait");
  json_.key("id").number(std::uint64_t{index}).key("bp").string("e");
  json_.key("ts").raw(trace_time(to)).end('}');
}

SOMA_INLINE void TraceWriter::counter(std::string_view label, double ns, std::uint32_t bytes) {
  event("C", 0, label).key("ts").raw(trace_time(whole_ns(ns)));
  json_.key("args").begin('{').key("bytes").number(std::uint64_t{bytes}).end('}').end('}');
}

SOMA_INLINE void TraceWriter::left_out() {
  if (events_.left_out() == 0) return;
  const double at =
      events_.kept == 0 ? 0 : timeline_.instructions[events_.order[events_.kept - 1]].start;
  event("i", 0, events_.left_out_text()).key("s").string("g").key("ts");
  json_.raw(trace_time(whole_ns(at))).end('}');
}

SOMA_INLINE std::string text_timeline(std::span<const Instruction> record, const Timeline& timeline,
                                      std::string_view estimate) {
  constexpr std::size_t columns = 80, name_columns = 14;
  std::array<std::vector<double>, lane_count> busy;
  const double width = timeline.ns / columns;
  for (std::size_t i = 0; i < record.size() && width > 0; ++i) {
    auto& row = busy[record[i].position.lane];
    row.resize(columns);
    const Timed& timed = timeline.instructions[i];
    for (auto column = static_cast<std::size_t>(timed.start / width); column < columns; ++column) {
      const double begin = static_cast<double>(column) * width;
      if (begin >= timed.end) break;
      row[column] += (std::min)(timed.end, begin + width) - (std::max)(timed.start, begin);
    }
  }
  std::string text(estimate);
  text.append("\n").append(microseconds(timeline.ns)).append(" us; busy: . a bit, + half, # all\n");
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    if (busy[lane].empty()) continue;
    text.append(left(lane_name(lane), name_columns)).append("|");
    for (const double ns : busy[lane])
      text.push_back(ns <= 0 ? ' ' : ns < width / 3 ? '.' : ns < 2 * width / 3 ? '+' : '#');
    text.append("|\n");
  }
  return text;
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
