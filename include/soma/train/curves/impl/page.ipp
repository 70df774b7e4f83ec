#pragma once
// The functions of page.hpp.

#include <soma/train/curves/page.hpp>

#include <soma/base/error.hpp>
#include <soma/base/fixed.hpp>
#include <soma/metrics/classification.hpp>
#include <soma/train/curves/markup.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE std::string shown_text(std::string_view text) {
  return "<bdi>" + markup_text(text, most_shown_characters) + "</bdi>";
}

SOMA_INLINE void append_cell(std::string& page, std::string_view content, std::string_view kind) {
  page.append("<td").append(kind.empty() ? "" : " class=\"").append(kind);
  page.append(kind.empty() ? ">" : "\">").append(content).append("</td>");
}

SOMA_INLINE void append_confusion(std::string& page, const ReportPage& report) {
  const std::size_t count = report.labels.size();
  page.append("<h2>Confusion matrix</h2>\n");
  if (!report.confusion.empty() && count <= most_matrix_classes) {
    page.append("<table id=\"confusion\">\n<tr><th>actual \\ predicted</th>");
    for (const std::string& label : report.labels)
      page.append("<th>").append(shown_text(label)).append("</th>");
    for (std::size_t i = 0; i < count; ++i) {
      page.append("</tr>\n<tr><th>").append(shown_text(report.labels[i])).append("</th>");
      for (std::size_t j = 0; j < count; ++j)
        append_cell(page, std::to_string(report.confusion[i * count + j]), i == j ? "n d" : "n");
    }
    page.append("</tr>\n</table>\n");
    return;
  }
  std::vector<metrics::Confusion> wrong;
  const auto add = [&](const metrics::Confusion& cell) {
    if (cell.label != cell.prediction && cell.cases != 0) wrong.push_back(cell);
  };
  for (std::size_t at = 0; at < report.confusion.size(); ++at)
    add({at / count, at % count, report.confusion[at]});
  for (const metrics::Confusion& cell : report.confusions) add(cell);
  std::stable_sort(
      wrong.begin(), wrong.end(),
      [](const metrics::Confusion& a, const metrics::Confusion& b) { return a.cases > b.cases; });
  if (wrong.size() > most_confusions) wrong.resize(most_confusions);
  page.append("<p>Of ").append(std::to_string(count));
  page.append(" classes, those that are confused most.</p>\n<table id=\"confusion\">\n");
  page.append("<tr><th>actual</th><th>predicted</th><th>texts</th></tr>\n");
  for (const metrics::Confusion& cell : wrong) {
    page.append("<tr>");
    append_cell(page, shown_text(report.labels[cell.label]));
    append_cell(page, shown_text(report.labels[cell.prediction]));
    append_cell(page, std::to_string(cell.cases), "n");
    page.append("</tr>\n");
  }
  page.append("</table>\n");
}

SOMA_INLINE void append_wrong(std::string& page, const ReportPage& report) {
  std::vector<const WrongText*> order;
  for (const WrongText& wrong : report.wrong) order.push_back(&wrong);
  std::stable_sort(order.begin(), order.end(), [](const WrongText* a, const WrongText* b) {
    return a->confidence > b->confidence;
  });
  if (order.size() > most_wrong_texts) order.resize(most_wrong_texts);
  page.append("<h2>Validation texts that were most confidently wrong</h2>\n");
  page.append("<table id=\"wrong\">\n<tr><th>").append(markup_text(report.confidence_title));
  page.append("</th><th>predicted</th><th>actual</th><th>text</th></tr>\n");
  for (const WrongText* wrong : order) {
    page.append("<tr>");
    append_cell(page, soma::fixed(wrong->confidence, 4), "n");
    append_cell(page, shown_text(wrong->predicted));
    append_cell(page, shown_text(wrong->expected));
    append_cell(page, shown_text(wrong->text) +
                          (wrong->pair.empty() ? "" : "<hr>" + shown_text(wrong->pair)));
    page.append("</tr>\n");
  }
  page.append("</table>\n");
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::string report_page(const ReportPage& report) {
  const std::size_t count = report.labels.size();
  const std::size_t cells = report.confusion.size();
  if (cells != 0 && (count == 0 || cells / count != count || cells % count != 0))
    fail(error_id::csv_size, "report_page", "confusion", std::to_string(cells) + " numbers",
         "the square of " + std::to_string(count) + ", the number of labels");
  for (const metrics::Confusion& cell : report.confusions)
    if (cell.label >= count || cell.prediction >= count)
      fail(error_id::csv_size, "report_page", "confusions",
           std::to_string(cell.label) + " taken for " + std::to_string(cell.prediction),
           "classes below " + std::to_string(count) + ", the number of labels");
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>";
  page.append(markup_text(report.title, 200)).append("</title>\n<style>");
  page.append(detail::page_style).append("</style>\n</head>\n<body>\n<h1>");
  page.append(markup_text(report.title, 200)).append("</h1>\n");
  if (!report.results.empty()) {
    page.append("<h2>Results</h2>\n<table id=\"results\">\n");
    for (const auto& [name, value] : report.results) {
      page.append("<tr><th>").append(markup_text(name, 200)).append("</th>");
      detail::append_cell(page, markup_text(value, 200));
      page.append("</tr>\n");
    }
    page.append("</table>\n");
  }
  if (!report.picture.empty())
    page.append("<h2>Curves</h2>\n<div id=\"curves\">\n").append(report.picture).append("</div>\n");
  if (cells != 0 || !report.confusions.empty()) detail::append_confusion(page, report);
  if (!report.wrong.empty()) detail::append_wrong(page, report);
  return page.append("</body>\n</html>\n");
}

}  // namespace SOMA_NAMESPACE::train
