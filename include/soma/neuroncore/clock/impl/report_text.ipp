#pragma once
// The functions of report_text.hpp.

#include <soma/neuroncore/clock/report_text.hpp>

#include <soma/neuroncore/clock/advice.hpp>
#include <soma/neuroncore/clock/summary.hpp>
#include <soma/neuroncore/clock/text_parts.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE void append_ranks(std::string& text, const Summary& summary, std::size_t most) {
  text.append("\nwhat bounds it, by its share of the path that decides the end\n");
  text.append("   share     path us     busy us  instructions  kind      name\n");
  const std::size_t shown = (std::min)(most, summary.ranks.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Rank& rank = summary.ranks[i];
    text.append(right(percent(summary.ns > 0 ? rank.path_ns / summary.ns : 0), 8))
        .append(right(microseconds(rank.path_ns), 12))
        .append(right(microseconds(rank.busy_ns), 12))
        .append(right(std::to_string(rank.instructions), 14))
        .append("  ")
        .append(left(rank.kind, 10));
    std::string name = rank.name;
    if (!rank.bound.empty() && rank.bound != rank.name) name.append(" (").append(rank.bound) += ")";
    if (name.size() > 41) name = left(name, 41);
    text.append(name).append("\n");
  }
  if (shown != summary.ranks.size())
    text.append("  and ").append(std::to_string(summary.ranks.size() - shown)).append(" more\n");
}

SOMA_INLINE void append_lanes(std::string& text, const Summary& summary) {
  const auto share = [&](double ns) {
    return right(percent(summary.ns > 0 ? ns / summary.ns : 0), 9);
  };
  text.append(
      "\n                    busy  instructions  idle: own result  semaphore     port"
      "  dma engines\n");
  for (const LaneUse& use : summary.lanes) {
    const auto idle = [&](Bound bound) {
      return share(use.idle_ns[static_cast<std::size_t>(bound)]);
    };
    text.append(left(lane_name(use.lane), 15)).append(share(use.busy_ns));
    text.append(right(std::to_string(use.instructions), 14));
    text.append(right(idle(Bound::result), 18)).append(right(idle(Bound::semaphore), 11));
    text.append(right(idle(Bound::port), 9)).append(right(idle(Bound::dma_engines), 13));
    text.append("\n");
  }
  if (summary.buffers != 0)
    text.append(left("dma engines", 15)).append(share(summary.dma_busy_ns)).append("\n");
}

SOMA_INLINE std::string report_text(const Summary& summary, const ReportNotes& notes,
                                    std::size_t most) {
  std::string text(notes.estimate);
  text.append("\n").append(microseconds(summary.ns)).append(" us on ").append(notes.machine);
  text.append(", ").append(std::to_string(summary.instructions)).append(" instructions\n");
  for (const std::string& warning : notes.warnings)
    text.append("warning: ").append(warning).append("\n");
  append_ranks(text, summary, most);
  append_lanes(text, summary);
  text.append("\narray         HFU ").append(percent(summary.hfu)).append(", MFU ");
  text.append(percent(summary.mfu)).append(" without transposes (");
  text.append(percent(summary.transpose_share)).append(" of the Tensor engine's time)\n");
  text.append("device memory MBU ").append(percent(summary.mbu)).append(", ");
  text.append(std::to_string(summary.bytes_read)).append(" bytes read, ");
  text.append(std::to_string(summary.bytes_written)).append(" written\n");
  text.append("transfers     ").append(std::to_string(summary.buffers)).append(" buffers of ");
  text.append(fixed(summary.mean_buffer, 0)).append(" bytes in the mean\n");
  text.append("intensity     ").append(fixed(summary.intensity, 1));
  text.append(" operations a byte, the machine's balance is ");
  text.append(fixed(summary.balance, 1)).append("\n");
  text.append("memory        at most ").append(std::to_string(summary.sbuf_peak));
  text.append(" bytes a partition of SBUF, ").append(std::to_string(summary.psum_peak));
  text.append(" of PSUM\n");
  for (const std::string& line : notes.advice) text.append("advice: ").append(line).append("\n");
  return text;
}

SOMA_INLINE std::string report_json(const Summary& summary, const ReportNotes& notes) {
  JsonWriter json;
  json.begin('{').key("estimate").raw("true").key("note").string(notes.estimate);
  json.key("machine").string(notes.machine).key("ns").number(summary.ns, 3);
  json.key("instructions").number(summary.instructions);
  json.key("bounds").begin('[');
  for (const Rank& rank : summary.ranks) {
    json.begin('{').key("kind").string(rank.kind).key("name").string(rank.name);
    json.key("path_ns").number(rank.path_ns, 3).key("busy_ns").number(rank.busy_ns, 3);
    json.key("instructions").number(rank.instructions).key("bound").string(rank.bound).end('}');
  }
  json.end(']').key("lanes").begin('[');
  for (const LaneUse& use : summary.lanes) {
    json.begin('{').key("name").string(lane_name(use.lane));
    json.key("instructions").number(use.instructions).key("busy_ns").number(use.busy_ns, 3);
    json.key("bytes").number(use.bytes).key("idle_ns").begin('{');
    for (std::size_t i = 0; i < bound_count; ++i)
      json.key(bound_names[i]).number(use.idle_ns[i], 3);
    json.end('}').end('}');
  }
  json.end(']').key("operators").begin('[');
  for (const OperatorUse& use : summary.operators)
    json.begin('{')
        .key("name")
        .string(use.name)
        .key("calls")
        .number(use.calls)
        .key("ns")
        .number(use.ns, 3)
        .key("bound")
        .string(use.bound)
        .end('}');
  json.end(']').key("dma_engines_busy_ns").number(summary.dma_busy_ns, 3);
  json.key("hfu").number(summary.hfu, 6).key("mfu").number(summary.mfu, 6);
  json.key("mbu").number(summary.mbu, 6);
  json.key("array_operations").number(summary.array_operations, 0);
  json.key("transpose_operations").number(summary.transpose_operations, 0);
  json.key("transpose_share").number(summary.transpose_share, 6);
  json.key("bytes_read").number(summary.bytes_read);
  json.key("bytes_written").number(summary.bytes_written);
  json.key("bytes_on_chip").number(summary.bytes_on_chip);
  json.key("buffers").number(summary.buffers).key("mean_buffer").number(summary.mean_buffer, 1);
  json.key("intensity").number(summary.intensity, 3).key("balance").number(summary.balance, 3);
  json.key("sbuf_peak").number(std::uint64_t{summary.sbuf_peak});
  json.key("psum_peak").number(std::uint64_t{summary.psum_peak});
  const auto list = [&](std::string_view name, const std::vector<std::string>& lines) {
    json.key(name).begin('[');
    for (const std::string& line : lines) json.string(line);
    json.end(']');
  };
  list("advice", notes.advice);
  list("warnings", notes.warnings);
  return json.end('}').take();
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
