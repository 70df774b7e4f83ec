// Which of two columns has the labels, where nobody says so.

#include <soma/text/row_reader.hpp>

#include "catch.hpp"
#include "text/rows.hpp"

#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using text::Format;
using text::RowOptions;

namespace {

// Rows of label(i) and text(i), with a separator between.
template <class First, class Second>
std::string table(int rows, const First& first, const Second& second) {
  std::string all;
  for (int i = 0; i < rows; ++i) all += first(i) + "\t" + second(i) + "\n";
  return all;
}
std::string sentence(int i) { return "a film about number " + std::to_string(i); }
std::string grade(int i) { return std::to_string(i % 3 + 1); }
std::string own_name(int i) { return "name" + std::to_string(i); }

// The first row, and what the reader says about it.
std::string first_row(const std::string& content, RowOptions options, bool noted) {
  std::vector<std::string> notes;
  options.format = Format::tsv;
  options.notes = &notes;
  text::RowReader reader = text::RowReader::of_memory(content, options);
  text::Row row;
  reader.next(row);
  CHECK(reader.swaps_columns() == noted);
  CHECK(notes.size() == (noted ? 1 : 0));
  return row.label + ": " + row.text;
}

}  // namespace

TEST_CASE("labels in the first column are found by counting", "[unit][text]") {
  CHECK(first_row(table(30, grade, sentence), {}, true) == "1: a film about number 0");
  CHECK(first_row(table(30, sentence, grade), {}, false) == "1: a film about number 0");
  CHECK(first_row(table(4, grade, sentence), {}, false) == "a film about number 0: 1");
  // Texts that come more than once.
  const auto repeated = [](int i) { return sentence(i % 12); };
  CHECK(first_row(table(
                      60, [](int i) { return grade(i); }, repeated),
                  {}, true) == "1: a film about number 0");
  CHECK(first_row(table(60, repeated, grade), {}, false) == "1: a film about number 0");
  // A class that most rows have, beside many rare ones.
  const auto rare = [](int i) { return i % 2 == 0 ? std::string("common") : own_name(i); };
  CHECK(first_row(table(60, sentence, rare), {}, false) == "common: a film about number 0");
  // A header without usual names.
  CHECK(first_row("mark\tphrases\n" + table(30, grade, sentence), {.header = text::Header::present},
                  true) == "1: a film about number 0");
  // An option decides.
  CHECK(first_row(table(30, grade, sentence), {.label_column = "2"}, false) ==
        "a film about number 0: 1");
  CHECK(first_row(table(30, grade, sentence), {.text_column = "1"}, false) ==
        "a film about number 0: 1");
  std::vector<std::string> notes;
  RowOptions options{.format = Format::tsv, .notes = &notes};
  const std::string content = table(30, grade, sentence);
  const text::RowReader reader = text::RowReader::of_memory(content, options);
  CHECK(notes.front() ==
        "the labels of \"memory\" are taken from column 1, the texts from column 2 (3 values in "
        "column 1, 30 in column 2, in 30 rows); --label-column 2 if not");
}

TEST_CASE("columns that both may hold texts are asked about", "[unit][text]") {
  CHECK(refusal(table(30, own_name, sentence), Format::tsv) ==
        "RowReader: columns of \"memory\" is 30 values in column 1, 30 in column 2, in 30 rows, so "
        "that neither is evidently that of the labels, wanted to be told which one is "
        "(--label-column 2, or 1) [text.column]");
  // Few values alone are no labels: the other column is shorter.
  const auto long_grade = [](int i) { return "a long text of class " + grade(i); };
  CHECK(refusal(table(30, long_grade, own_name), Format::tsv).ends_with("[text.column]"));
  CHECK(first_row(table(30, own_name, sentence), {.label_column = "1"}, false) ==
        "name0: a film about number 0");
  // A few rows decide nothing.
  CHECK(first_row(table(3, own_name, sentence), {}, false) == "a film about number 0: name0");
}

TEST_CASE("known labels and numbers say where they are", "[unit][text]") {
  const std::vector<std::string> known{"1", "2", "3"};
  const RowOptions labels{.known_labels = known};
  CHECK(first_row("2\ta\n", labels, true) == "2: a");
  CHECK(first_row("a\t2\n", labels, false) == "2: a");
  CHECK(first_row("2\t1\n", labels, false) == "1: 2");
  const RowOptions numbers{.labels = data::LabelKind::number};
  CHECK(first_row("0.5\tgood\n1e-3\tfine\n", numbers, true) == "0.5: good");
  CHECK(first_row("good\t0.5\n7\t0.1\n", numbers, false) == "0.5: good");
  CHECK(first_row("2021\t0.5\n2022\t0.1\n", numbers, false) == "0.5: 2021");
}
