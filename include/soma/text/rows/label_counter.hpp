#pragma once
// The classes of rows: which spellings are one class, and the number of each class.

#include <soma/data/labels.hpp>
#include <soma/text/row_options.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace SOMA_NAMESPACE::text {

// Equal for labels that are one class to a reader: letters with their accents apart or composed
// (Unicode's forms NFC and NFD), with or without invisible characters; 1 and 1.0; true and True.
// Invalid UTF-8 stays.
std::string label_key(std::string_view label);

// Finds classes by their names.
class LabelIndex {
 public:
  // `merge`: a label that only has the key of a class is that class, if no other class has the key.
  explicit LabelIndex(std::span<const std::string> labels, bool merge = false);

  // The index of the class; not set if there is none.
  std::optional<std::size_t> find(const std::string& label) const;
  // Words for a message about a label that find() has not found: the labels that were wanted.
  std::string wanted_for(const std::string& label) const;

 private:
  std::optional<std::size_t> same(const std::string& label) const;

  std::vector<std::string> labels_;
  bool merge_;
  std::unordered_map<std::string, std::size_t> exact_{}, keys_{};
};

// Collects the labels of training rows. A label has a number as it comes, and a class at the end.
class LabelCounter {
 public:
  struct Classes {
    std::vector<std::string> names{};      // as sort_labels() orders them
    std::vector<std::uint64_t> counts{};   // rows of each
    std::vector<std::size_t> of_number{};  // the class of a label's number
  };

  // `most`: more labels are taken for a mistake. `operation` names the caller in messages, and must
  // outlive the object.
  LabelCounter(std::string_view operation, std::size_t most) : operation_(operation), most_(most) {}

  // Returns the label's number. Error text.label_count.
  std::size_t add(const std::string& label, std::string_view file, std::uint64_t line);
  // A class that perhaps no row has.
  void add_class(const std::string& label, std::string_view file);

  std::vector<std::string> labels() const;

  // The classes of the labels so far. With RowOptions::merge_labels labels of one key become one
  // class, named as most of its rows are. Labels that differ by case stay apart, with a note.
  // Errors text.one_class, text.label_alike (two labels have one key and are not merged),
  // text.label_separator.
  Classes finish(const RowOptions& options) const;

 private:
  struct Label {
    std::string name{}, file{};
    std::uint64_t line = 0;  // where it came first; 0: in the header
    std::uint64_t rows = 0;
  };

  std::string place(const Label& label) const;
  // For each label, the number of the label that stands for its class.
  std::vector<std::size_t> spokesmen(bool merge) const;
  void note_cases(const Classes& classes, const RowOptions& options) const;
  void check_count(const RowOptions& options) const;

  std::string_view operation_;
  std::size_t most_;
  std::vector<Label> labels_{};
  std::unordered_map<std::string, std::size_t> numbers_{};
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/label_counter.ipp>
#endif
