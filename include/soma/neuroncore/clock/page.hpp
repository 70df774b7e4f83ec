#pragma once
// A report as one page of HTML: the ranked list, the engines, a zoomable timeline. The page makes
// no requests, and forbids them in its policy. Used by Report.

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

// Names that slices refer to by number; number 0 is the empty one.
class NameTable {
 public:
  NameTable();
  std::size_t number(const std::string& name);
  void write(JsonWriter& json) const;

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> names_;
};

class PageWriter {
 public:
  PageWriter(std::span<const Instruction> record, const RecordNames& names,
             const Timeline& timeline, const Events& events, const Summary& summary,
             const ReportNotes& notes, std::size_t most_ranks);

  std::string run();

 private:
  void text(std::string_view value);
  void cell(std::string_view value, bool is_text = false);
  void lines(std::string_view kind, const std::vector<std::string>& all);
  std::string share(double ns) const;

  void ranks();
  void lanes();

  // Rows of slices with five numbers each: the distance from the end of the previous slice to its
  // start, its duration, name, line and region.
  void data();
  template <class NameOf>
  static void spans(JsonWriter& json, std::string_view row, const std::vector<Span>& all,
                    NameTable& names, const NameOf& name_of) {
    if (all.empty()) return;
    json.begin('{').key("name").string(row).key("slices").begin('[');
    std::int64_t at = 0;
    for (const Span& span : all)
      slice(json, at, span.start, span.end, names.number(name_of(span)), 0, 0);
    json.end(']').end('}');
  }
  static void slice(JsonWriter& json, std::int64_t& at, std::int64_t start, std::int64_t end,
                    std::size_t name, std::size_t line, std::size_t region);

  std::span<const Instruction> record_;
  const RecordNames& names_;
  const Timeline& timeline_;
  const Events& events_;
  const Summary& summary_;
  const ReportNotes& notes_;
  std::size_t most_ranks_;
  std::string html_;
};

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/page.ipp>
#endif
