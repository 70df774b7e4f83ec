#pragma once
// report_page(): the results of a run as one page of HTML that is complete in itself: it has no
// script and makes no request, which its Content-Security-Policy forbids.

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

namespace SOMA_NAMESPACE::train {

// A text that the model classified wrongly.
struct WrongText {
  std::string text{}, pair{};  // pairs: the second text is `pair`
  std::string expected{}, predicted{};
  double confidence = 0;  // by which the page sorts them, the largest first
};

// Texts may have any bytes. Empty members are left out.
struct ReportPage {
  std::string title = "training";
  std::string picture{};                                       // SVG, taken as it is
  std::vector<std::pair<std::string, std::string>> results{};  // names and values
  // Row-major: the number of cases of class i that were predicted as class j, as in
  // metrics::Classification.
  std::vector<std::string> labels{};
  std::vector<std::uint64_t> confusion{};
  std::vector<metrics::Confusion> confusions{};  // the same where there is no matrix
  std::vector<WrongText> wrong{};
  std::string confidence_title = "probability";
};

// Limits of a page, whatever it is given.
inline constexpr std::size_t most_matrix_classes = 40, most_confusions = 100,
                             most_wrong_texts = 100, most_shown_characters = 1000;

namespace detail {

inline constexpr std::string_view page_style =
    "body{font-family:sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:.5em 0}"
    "th,td{border:1px solid #ccc;padding:.2em .6em;text-align:left;vertical-align:top}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "td.d{background:#e3f1e3}svg{max-width:100%;height:auto}";

// Text for readers, isolated from the words around it in case it is written from right to left.
std::string shown_text(std::string_view text);
void append_cell(std::string& page, std::string_view content, std::string_view kind = {});

// All classes if they fit, else the most confused pairs.
void append_confusion(std::string& page, const ReportPage& report);

void append_wrong(std::string& page, const ReportPage& report);

}  // namespace detail

// The page. Error csv.size: the confusion matrix is not square in the labels, or the confusions
// have other classes.
std::string report_page(const ReportPage& report);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/curves/impl/page.ipp>
#endif
