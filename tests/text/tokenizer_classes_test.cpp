// Classes of transformers: the parts of a folder that each reads, held to tables that two versions
// made.

#include <soma/text/tokenizer_json.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <cstddef>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace soma::text;
using namespace soma_test;

namespace {

struct StoredClass {
  const char *name, *base;            // name: empty: the folder names no class
  const char *version_4, *version_5;  // for each setting; none: the version refuses the folder
};

#include "text/tokenizer_classes.inc"

constexpr std::string_view pieces =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nA\ne\né\nab\nb\n##c\n@@c\n漢\n字\n##字\n@@字\nhello\n";

// The letters of tokenizer_classes.py, or none.
std::string observe(const std::string& folder, std::vector<std::string>& notes) {
  std::string letters = "none";
  const std::string problem = message_of([&] {
    const Tokenizer tokenizer = load_tokenizer(folder, "", &notes);
    letters.clear();
    const auto add = [&](char letter, std::string_view text,
                         const std::vector<std::string>& wanted) {
      std::vector<std::string> found;
      for (const std::int32_t id : tokenizer.encode(text, {.special_tokens = false}).ids)
        found.emplace_back(tokenizer.vocabulary().piece(id));
      letters.push_back(found == wanted ? letter : '-');
    };
    add('l', "A", {"a"});
    add('s', "é", {"e"});
    add('c', "漢字", {"漢", "字"});
    add('t', "a\u200db", {"ab"});
    add('p', "bc", {"b", "##c"});
    add('m', "hello", {"hello"});
  });
  return letters;
}

}  // namespace

TEST_CASE("each class reads what it reads in transformers", "[unit][text][tokenizer_json]") {
  const TemporaryFolder folder;
  write_text(folder / "vocab.txt", std::string(pieces));
  for (const auto& [name, base, version_4, version_5] : stored_classes) {
    const std::string& whole = stored_bases.at(base);
    std::filesystem::remove(folder / "tokenizer.json");
    if (!whole.empty()) write_text(folder / "tokenizer.json", whole);
    std::istringstream first(version_4), second(version_5);
    for (const std::string_view setting : stored_settings) {
      std::string four, five;
      first >> four;
      second >> five;
      std::string settings =
          *name == '\0' ? "" : "\"tokenizer_class\":\"" + std::string(name) + "\"";
      if (!setting.empty()) settings.append(settings.empty() ? "" : ",").append(setting);
      std::filesystem::remove(folder / "tokenizer_config.json");
      if (!settings.empty()) write_text(folder / "tokenizer_config.json", "{" + settings + "}");
      std::vector<std::string> notes;
      INFO(name << ", " << base << ", " << setting);
      CHECK(observe(folder.path(), notes) == (four == "none" ? five : four));
      const bool differ = four != "none" && five != "none" && four != five;
      CHECK(notes.size() == (differ ? 1u : 0u));
      if (notes.size() == 1) {
        CHECK(notes[0].find("transformers 4") != std::string::npos);
        CHECK(notes[0].find("transformers 5") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a note names the difference", "[unit][text][tokenizer_json]") {
  const TemporaryFolder folder;
  write_text(folder / "vocab.txt", std::string(pieces));
  write_text(folder / "tokenizer.json", stored_bases.at("other"));
  write_text(folder / "tokenizer_config.json", R"({"tokenizer_class": "ConvBertTokenizer"})");
  std::vector<std::string> notes;
  load_tokenizer(folder.path(), "", &notes);
  CHECK(notes == std::vector<std::string>{
                     "load_tokenizer: in \"" + folder.path() +
                     "\" ConvBertTokenizer of transformers 4 splits texts otherwise than that of "
                     "transformers 5: lower case true and not false, ideographs apart true and not "
                     "false; as in version 4 is taken"});
}
