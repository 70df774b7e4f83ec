#pragma once
// The functions of page.hpp.

#include <soma/neuroncore/clock/page.hpp>

#include <soma/neuroncore/clock/events.hpp>
#include <soma/neuroncore/clock/page_script.hpp>
#include <soma/neuroncore/clock/report_text.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE NameTable::NameTable() { number(""); }

SOMA_INLINE std::size_t NameTable::number(const std::string& name) {
  const auto [at, added] = numbers_.emplace(name, names_.size());
  if (added) names_.push_back(name);
  return at->second;
}

SOMA_INLINE void NameTable::write(JsonWriter& json) const {
  json.begin('[');
  for (const std::string& name : names_) json.string(name);
  json.end(']');
}

SOMA_INLINE PageWriter::PageWriter(std::span<const Instruction> record, const RecordNames& names,
                                   const Timeline& timeline, const Events& events,
                                   const Summary& summary, const ReportNotes& notes,
                                   std::size_t most_ranks)
    : record_(record),
      names_(names),
      timeline_(timeline),
      events_(events),
      summary_(summary),
      notes_(notes),
      most_ranks_(most_ranks) {}

SOMA_INLINE std::string PageWriter::run() {
  html_ =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>NeuronCore</title>\n"
      "<style>";
  html_.append(page_style).append("</style></head><body>\n<h1>");
  text(microseconds(summary_.ns) + " us on " + notes_.machine);
  html_.append("</h1>\n<p class=\"note\">");
  text(notes_.estimate);
  html_.append("</p>\n");
  lines("warning", notes_.warnings);
  html_.append("<h2>Timeline</h2>\n<p>The wheel zooms, dragging moves, a double click shows all. ");
  text(events_.left_out_text());
  html_.append("</p>\n<svg id=\"timeline\"></svg>\n");
  ranks();
  lanes();
  lines("advice", notes_.advice);
  html_.append("<h2>Report</h2>\n<pre>");
  text(report_text(summary_, notes_, most_ranks_));
  html_.append("</pre>\n<script type=\"application/json\" id=\"data\">");
  data();
  html_.append("</script>\n<script>").append(page_script).append("</script>\n</body></html>\n");
  return std::move(html_);
}

SOMA_INLINE void PageWriter::text(std::string_view value) {
  while (!value.empty()) {
    const std::size_t length = utf8_length(value);
    const char letter = value[0];
    if (length == 0)
      html_.append("&#xfffd;");
    else if (letter == '<')
      html_.append("&lt;");
    else if (letter == '&')
      html_.append("&amp;");
    else
      html_.append(value.substr(0, length));
    value.remove_prefix(length == 0 ? 1 : length);
  }
}

SOMA_INLINE void PageWriter::cell(std::string_view value, bool is_text) {
  html_.append(is_text ? "<td class=\"text\">" : "<td>");
  text(value);
  html_.append("</td>");
}

SOMA_INLINE void PageWriter::lines(std::string_view kind, const std::vector<std::string>& all) {
  for (const std::string& line : all) {
    html_.append("<p class=\"").append(kind).append("\">").append(kind).append(": ");
    text(line);
    html_.append("</p>\n");
  }
}

SOMA_INLINE std::string PageWriter::share(double ns) const {
  return percent(summary_.ns > 0 ? ns / summary_.ns : 0);
}

SOMA_INLINE void PageWriter::ranks() {
  html_.append(
      "<h2>What bounds it</h2>\n<p>Shares of the path that decides the end.</p>\n"
      "<table id=\"ranks\"><tr><th>share</th><th>path us</th><th>busy us</th>"
      "<th>instructions</th><th class=\"text\">kind</th><th class=\"text\">name</th>"
      "<th class=\"text\">mostly</th></tr>\n");
  for (std::size_t i = 0; i < (std::min)(most_ranks_, summary_.ranks.size()); ++i) {
    const Rank& rank = summary_.ranks[i];
    html_.append("<tr class=\"rank\">");
    cell(share(rank.path_ns));
    cell(microseconds(rank.path_ns));
    cell(microseconds(rank.busy_ns));
    cell(std::to_string(rank.instructions));
    cell(rank.kind, true);
    cell(rank.name, true);
    cell(rank.bound, true);
    html_.append("</tr>\n");
  }
  html_.append("</table>\n");
}

SOMA_INLINE void PageWriter::lanes() {
  html_.append(
      "<h2>Engines and queues</h2>\n<table id=\"engines\"><tr><th></th><th>busy</th>"
      "<th>busy us</th><th>instructions</th>");
  for (const std::string_view name : bound_names)
    html_.append("<th>idle: ").append(name).append("</th>");
  html_.append("</tr>\n");
  for (const LaneUse& use : summary_.lanes) {
    html_.append("<tr class=\"lane\">");
    cell(lane_name(use.lane), true);
    cell(share(use.busy_ns));
    cell(microseconds(use.busy_ns));
    cell(std::to_string(use.instructions));
    for (const double ns : use.idle_ns) cell(share(ns));
    html_.append("</tr>\n");
  }
  html_.append("</table>\n");
}

SOMA_INLINE void PageWriter::data() {
  std::vector<std::vector<std::uint32_t>> rows(lane_count);
  for (std::size_t i = 0; i < events_.kept; ++i)
    rows[record_[events_.order[i]].position.lane].push_back(events_.order[i]);
  NameTable names, places;
  LaneRows drawn;
  JsonWriter json;
  json.begin('{').key("ns").number(summary_.ns, 0).key("rows").begin('[');
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    if (rows[lane].empty()) continue;
    json.begin('{').key("name").string(lane_name(lane)).key("slices").begin('[');
    std::int64_t at = 0;
    for (const std::uint32_t index : rows[lane]) {
      const Instruction& instruction = record_[index];
      const Span span = drawn.next(instruction, timeline_.instructions[index]);
      slice(json, at, span.start, span.end,
            names.number(std::string(to_string(instruction.opcode))),
            places.number(line_text(instruction.source)),
            places.number(names_.path(instruction.region)));
    }
    json.end(']').end('}');
  }
  spans(json, "operators", events_.calls, names,
        [&](const Span& span) { return names_.calls[span.name].name; });
  for (const SpanRow& region : events_.regions)
    spans(json, region.name, region.spans, names, [&](const Span&) { return region.name; });
  json.end(']').key("names");
  names.write(json);
  json.key("places");
  places.write(json);
  html_.append(json.end('}').take());
}

SOMA_INLINE void PageWriter::slice(JsonWriter& json, std::int64_t& at, std::int64_t start,
                                   std::int64_t end, std::size_t name, std::size_t line,
                                   std::size_t region) {
  json.raw(std::to_string(start - at)).raw(std::to_string(end - start));
  json.raw(std::to_string(name)).raw(std::to_string(line)).raw(std::to_string(region));
  at = end;
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
