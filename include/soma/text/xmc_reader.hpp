#pragma once
// read_xmc(): points with few features among very many, one a line, in the format of repositories
// of extreme classification and of libsvm:
//
//   points features labels        a first line of three whole numbers, which may be left out
//   12,845 0:1 17:0.25 90:3e-2    labels, then feature:value
//    3:1                          a point without labels begins with a space, or with a feature
//   +1 qid:7 3:+0.5  # seen       a sign, a query's number, which is skipped, and a comment
//
// Also .gz; lines end with LF or CR LF. Ids of features and labels count from 0, or features from
// XmcOptions::first_feature.

#include <soma/data/point_source.hpp>
#include <soma/text/record_reader.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

struct XmcOptions {
  // The ids of features and labels must be below these numbers, which an existing model gives. 0:
  // the first line's numbers, or if it has none, as many as the points name.
  std::size_t features = 0, classes = 0;
  std::size_t first_feature = 0;                      // 1: as libsvm's own files count
  std::size_t max_line_bytes = std::size_t{1} << 24;  // as the line lies in the file, unpacked
  // True: a blank line, or one that is a comment alone, is a point without features, so that each
  // line has an answer. False: such a line is no point.
  bool blank_points = false;
  // Takes a sentence about the query numbers that were skipped; nullptr: nobody does.
  std::vector<std::string>* notes = nullptr;
};

namespace detail {

class XmcReader {
 public:
  XmcReader(const std::string& file, ByteSource bytes, const XmcOptions& options)
      : file_(file), options_(options), lines_(std::move(bytes), options.max_line_bytes) {}

  data::SparsePoints read();

 private:
  static constexpr std::string_view operation = "read_xmc";
  static constexpr std::uint64_t most_ids = std::uint64_t{1} << 31;

  [[noreturn]] void refuse(std::string_view given, std::string_view wanted) const;
  static bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }
  // The next word of a line; empty at the end of the line.
  static std::string_view next_word(std::string_view& rest);
  static bool whole(std::string_view text, std::uint64_t& number);
  // Without a plus sign before a digit or a point.
  static std::string_view unsigned_of(std::string_view text);

  bool take_header(std::string_view line);
  [[noreturn]] void refuse_header(std::string_view given, std::string_view wanted) const;

  // True if the line is a point: it is not blank, or blank_points.
  bool add_line(std::string_view line);
  void add_point(std::string_view line);

  // The id must be below `limit`, or below 2^31 if the limit is 0.
  std::int32_t id_of(std::string_view text, std::string_view what, std::uint64_t from,
                     std::uint64_t limit) const;
  void add_labels(std::string_view word);
  void add_feature(std::string_view word);
  // Most lines ascend: only others are sorted for the check.
  template <class Ids>
  void check_each_once(const Ids& ids, std::string_view what) {
    const auto not_ascending = [](std::int32_t a, std::int32_t b) { return a >= b; };
    if (std::adjacent_find(ids.begin(), ids.end(), not_ascending) == ids.end()) return;
    sorted_.assign(ids.begin(), ids.end());
    std::sort(sorted_.begin(), sorted_.end());
    const auto twice = std::adjacent_find(sorted_.begin(), sorted_.end());
    if (twice != sorted_.end())
      refuse(std::string(what).append(" ").append(std::to_string(*twice)).append(" twice"),
             "each once");
  }

  void finish();

  const std::string& file_;
  const XmcOptions& options_;
  RecordReader lines_;
  data::SparsePoints points_{};
  bool has_header_ = false;
  std::uint64_t claimed_points_ = 0, line_ = 0, blank_lines_ = 0, queries_ = 0;
  std::int32_t most_feature_ = -1, most_label_ = -1;
  std::vector<std::int32_t> labels_{}, sorted_{};
};

}  // namespace detail

// All points of a file, in its order. Errors file.read, text.file_gzip, text.file_changed,
// text.file_empty, text.xmc_header, and text.xmc_row, which names the line.
data::SparsePoints read_xmc(const std::string& file, const XmcOptions& options = {});
// The same for a text in memory, which messages call `name`.
data::SparsePoints read_xmc_text(std::string_view text, const std::string& name = "memory",
                                 const XmcOptions& options = {});

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/xmc_reader.ipp>
#endif
