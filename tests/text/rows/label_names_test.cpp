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
        "read_labelled: labels is \"very good\" and \"very<U+00A0>good\", which look the same, "
        "wanted the same characters for the same class [text.label_alike]");
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
