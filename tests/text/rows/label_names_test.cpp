// Names of classes: those that look the same, those that other files know, several in a row.

#include <soma/text/labelled_text.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace soma;
using namespace soma_test;
using text::LabelledText;
using text::read_labelled;

namespace {

// The message, the folder's name cut out.
template <class Action>
std::string refusal(const TemporaryFolder& folder, const Action& action) {
  std::string text = message_of(action);
  for (std::size_t at; (at = text.find(folder.path())) != std::string::npos;)
    text.replace(at, folder.path().size(), "F");
  return text;
}

}  // namespace

TEST_CASE("classes that look the same are refused, or one where only the ends differ",
          "[unit][text]") {
  const TemporaryFolder folder;
  const auto read = [&](std::string_view content) {
    write_text(folder / "a.tsv", content);
    return read_labelled(folder / "a.tsv", {.validation_share = 0});
  };
  // No-break space, zero width space, byte order mark, ideographic space.
  const LabelledText text = read("a\tx\nb\tx\u00a0\nc\t\u200bx\nd\t\ufeffx \u3000\ne\ty\nf\ty\n");
  CHECK(text.labels() == std::vector<std::string>{"x", "y"});
  CHECK(refusal(folder, [&] { read("a\tvery good\nb\tvery\u00a0good\nc\tbad\n"); }) ==
        "read_labelled: labels is \"very good\" (line 1 of \"F/a.tsv\") and "
        "\"very<U+00A0>good\" (line 2 of \"F/a.tsv\"), which are the same to a reader, wanted one "
        "spelling of a class, or merge_labels (--merge-labels) [text.label_alike]");
  CHECK(id_of([&] { read("a\tgood\nb\tgo\u00adod\nc\tbad\n"); }) == "text.label_alike");
  CHECK(id_of([&] { read("a\tso so\nb\tso  so\nc\tbad\n"); }) == "text.label_alike");
  // Flags are told apart by tags, which are seen.
  const std::string flag = "\U0001F3F4\U000E0067\U000E0062";
  CHECK(read("a\t" + flag + "\U000E0065\nb\t" + flag + "\U000E0073\n").labels().size() == 2);
}

TEST_CASE("a label that is known is no header of a further file", "[unit][text]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "train");
  // In the second file by itself, the first row would look like a header.
  write_text(folder / "train/1.tsv", "a\tx\nb\ty\nc\tx\n");
  write_text(folder / "train/2.tsv", "d\tx\ne\ty\nf\ty\n");
  write_text(folder / "dev.tsv", "g\tx\nh\ty\ni\ty\n");
  const LabelledText text = read_labelled(folder.path());
  CHECK(text.train().size() == 6);
  CHECK(text.validation().size() == 3);
  // Each file may have its own header.
  write_text(folder / "train/1.tsv", "tweet\tmood\na\tx\nb\ty\nc\tx\nd\ty\n");
  write_text(folder / "train/2.tsv", "tweet\tmood\ne\tx\nf\ty\ng\tx\nh\ty\n");
  CHECK(read_labelled(folder.path()).train().size() == 8);
  CHECK(read_labelled(folder.path()).labels() == std::vector<std::string>{"x", "y"});
}

TEST_CASE("rows with several labels", "[unit][text]") {
  const TemporaryFolder folder;
  const text::ReadOptions several{.rows = {.labels = data::LabelKind::several},
                                  .validation_share = 0};
  write_text(folder / "a.csv", "text,tags\none,\"a,b\"\ntwo,b\nthree,\nfour,\"b,a,b\"\n");
  const LabelledText text = read_labelled(folder / "a.csv", several);
  CHECK(text.labels() == std::vector<std::string>{"a", "b"});
  REQUIRE(text.train().size() == 4);
  CHECK(text.train()[0].labels == std::vector<std::int32_t>{0, 1});
  CHECK(text.train()[1].labels == std::vector<std::int32_t>{1});
  CHECK(text.train()[2].labels.empty());
  CHECK(text.train()[3].labels == std::vector<std::int32_t>{0, 1});
  write_text(folder / "b.csv", "text,tags\none,a|b\ntwo,b\nthree,a\n");
  CHECK(refusal(folder, [&] { read_labelled(folder / "b.csv", several); }) ==
        "read_labelled: label is \"a|b\", which holds the label \"a\", wanted labels separated by "
        "',', or another label_separator [text.label_separator]");
  text::ReadOptions bars = several;
  bars.rows.label_separator = '|';
  CHECK(read_labelled(folder / "b.csv", bars).labels() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("labels that are the same to a reader have one key", "[unit][text]") {
  using text::label_key;
  CHECK(label_key("1") == label_key("1.0"));
  CHECK(label_key("-3") == label_key("-3.000"));
  CHECK(label_key("true") == label_key("True"));
  CHECK(label_key("FALSE") == label_key("false"));
  CHECK(label_key("caf\u00e9") == label_key("cafe\u0301"));
  CHECK(label_key("\u1eadt") == label_key("a\u0302\u0323t"));  // marks in any order
  for (const auto& [one, other] :
       {std::pair("1", "1.5"), std::pair("1.1", "1.10"), std::pair("01", "1"), std::pair("1.", "1"),
        std::pair("v1.0", "v1"), std::pair("Good", "good"), std::pair("\ufb01", "fi"),
        std::pair(".0", ""), std::pair("caf\u00e9", "cafe"), std::pair("\xff", "\xfe")})
    CHECK(label_key(one) != label_key(other));
}

TEST_CASE("labels that are the same are refused with both places, or merged", "[unit][text]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "train");
  write_text(folder / "train/1.tsv", "a\t1\nb\t0\nc\t0\n");
  write_text(folder / "train/2.tsv", "d\t0\ne\t1.0\nf\t1.0\n");
  write_text(folder / "dev.tsv", "g\t1\nh\t0.0\n");
  CHECK(refusal(folder, [&] { read_labelled(folder.path()); }) ==
        "read_labelled: labels is \"1\" (line 1 of \"F/train/1.tsv\") and \"1.0\" (line 2 of "
        "\"F/train/2.tsv\"), which are the same to a reader, wanted one spelling of a class, or "
        "merge_labels (--merge-labels) [text.label_alike]");
  // The class is named as most of its rows are; other files may spell it in any way.
  const LabelledText merged = read_labelled(folder.path(), {.rows = {.merge_labels = true}});
  CHECK(merged.labels() == std::vector<std::string>{"0", "1.0"});
  REQUIRE(merged.train().size() == 6);
  for (const std::size_t one : {0u, 4u, 5u}) CHECK(merged.train()[one].label == 1);
  CHECK(merged.validation()[0].label == 1);
  CHECK(merged.validation()[1].label == 0);
  // Without merging, another file's spelling is unseen, and the message says why.
  write_text(folder / "train/2.tsv", "d\t0\ne\t1\n");
  CHECK(refusal(folder, [&] { read_labelled(folder.path()); }) ==
        "read_labelled: label in line 2 of \"F/dev.tsv\" is \"0.0\", wanted \"0\", which is the "
        "same, or merge_labels (--merge-labels) [text.label_unseen]");
  // A label of several that comes in two spellings is one label.
  write_text(folder / "b.csv", "text,tags\na,\"x,True\"\nb,\"true,True\"\nc,true\n");
  const LabelledText several = read_labelled(
      folder / "b.csv",
      {.rows = {.labels = data::LabelKind::several, .merge_labels = true}, .validation_share = 0});
  CHECK(several.labels() == std::vector<std::string>{"True", "x"});
  CHECK(several.train()[1].labels == std::vector<std::int32_t>{0});
}

TEST_CASE("labels that differ by case are two classes, and a note says so", "[unit][text]") {
  const TemporaryFolder folder;
  write_text(folder / "a.tsv", "a\tgood\nb\tGood\nc\tbad\nd\tgood\n");
  std::vector<std::string> notes;
  text::ReadOptions options{.rows = {.notes = &notes}, .validation_share = 0};
  CHECK(read_labelled(folder / "a.tsv", options).labels().size() == 3);
  REQUIRE(notes.size() == 1);
  CHECK(notes.front() == "labels \"Good\" (line 2 of \"" + (folder / "a.tsv") +
                             "\") and \"good\" (line 1 of \"" + (folder / "a.tsv") +
                             "\") differ by case, and are two classes");
  write_text(folder / "a.tsv", "a\tgood\nb\tbad\n");
  read_labelled(folder / "a.tsv", options);
  CHECK(notes.size() == 1);
}
