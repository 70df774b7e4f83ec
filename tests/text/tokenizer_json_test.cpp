// Tokenizers in files: what the packages write is read, what we write says the same, and what is
// another kind is named.

#include <soma/text/tokenizer_json.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <filesystem>
#include <fstream>
#include <string>

using namespace soma::text;
using namespace soma_test;

namespace {

// As the package writes it, with what matters to a model of five pieces.
constexpr const char* written_by_the_package = R"({"version": "1.0",
 "truncation": {"max_length": 128, "strategy": "LongestFirst", "stride": 0}, "padding": null,
 "added_tokens": [
  {"id": 0, "special": true, "content": "[PAD]",
   "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
  {"id": 1, "special": true, "content": "[UNK]",
   "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
  {"id": 2, "special": true, "content": "<s>",
   "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
  {"id": 3, "special": true, "content": "</s>",
   "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
  {"id": 4, "special": true, "content": "[E1]",
   "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
 "normalizer": {"type": "BertNormalizer", "clean_text": true,
  "handle_chinese_chars": false, "strip_accents": null, "lowercase": false},
 "pre_tokenizer": {"type": "BertPreTokenizer"},
 "post_processor": {"type": "TemplateProcessing",
  "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
   {"Sequence": {"id": "A", "type_id": 0}},
   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
  "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
   {"Sequence": {"id": "A", "type_id": 0}},
   {"SpecialToken": {"id": "</s>", "type_id": 0}},
   {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "</s>", "type_id": 1}}],
  "special_tokens": {}},
 "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
  "max_input_chars_per_word": 50,
  "vocab": {"[UNK]": 1, "[PAD]": 0, "</s>": 3, "<s>": 2, "[E1]": 4, "\u00e9\"": 5}}})";

// That text with one part of it changed.
std::string with(std::string_view part, std::string_view by) {
  std::string text = written_by_the_package;
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), by);
}
std::string refusal(const std::string& content) {
  return message_of([&] { read_tokenizer_json(content, "t.json"); });
}
bool refused_for(const std::string& content, const char* what) {
  const std::string message = refusal(content);
  INFO(message);
  const bool found = message.find(what) != std::string::npos;
  CHECK(found);
  return found && id_of([&] { read_tokenizer_json(content); }) == "text.tokenizer_file";
}

Tokenizer tokenizer_of(const std::string& content) {
  TokenizerParts parts = read_tokenizer_json(content);
  return Tokenizer(std::move(parts.vocabulary), std::move(parts.options));
}

class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  void write(const char* name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() /
      ("soma_tokenizer_" +
       std::to_string(std::filesystem::hash_value(std::filesystem::current_path())));
};

}  // namespace

TEST_CASE("tokenizer.json of the package is read whole", "[unit][text][tokenizer_json]") {
  const TokenizerParts parts = read_tokenizer_json(written_by_the_package);
  CHECK(parts.vocabulary.to_text() == "[PAD]\n[UNK]\n<s>\n</s>\n[E1]\n\xC3\xA9\"\n");
  TokenizerOptions wanted;
  wanted.split = {.lowercase = false, .chinese_chars = false, .max_word_chars = 50};
  wanted.start = "<s>";
  wanted.separator = "</s>";
  wanted.more_special = {"[E1]"};
  CHECK(parts.options == wanted);
  // Without added tokens, the package looks for none in a text.
  std::string plain = written_by_the_package;
  const std::size_t begin = plain.find("\"added_tokens\": [") + 17, end = plain.find("}],", begin);
  plain.erase(begin, end + 1 - begin);
  CHECK_FALSE(read_tokenizer_json(plain).options.special_in_text);
  const std::string bert = R"("post_processor": {"type": "BertProcessing", "sep": ["[PAD]", 0], )"
                           R"("cls": ["[E1]", 4]}, "unused": {"type": "TemplateProcessing",)";
  const TokenizerParts older =
      read_tokenizer_json(with(R"("post_processor": {"type": "TemplateProcessing",)", bert));
  CHECK(older.options.start == "[E1]");
  CHECK(older.options.separator == "[PAD]");
}

TEST_CASE("what is written reads the same", "[unit][text][tokenizer_json]") {
  for (const bool strip : {false, true}) {
    TokenizerParts parts = read_tokenizer_json(written_by_the_package);
    if (strip) parts.options.split.strip_accents = true;
    parts.options.split.clean_text = !strip;
    const Tokenizer tokenizer(parts.vocabulary, parts.options);
    const TokenizerParts again = read_tokenizer_json(to_tokenizer_json(tokenizer));
    CHECK(again.vocabulary == parts.vocabulary);
    TokenizerOptions options = again.options;
    options.mask = tokenizer.options().mask;  // there is none, which the file does not say
    CHECK(options == tokenizer.options());
    // The options alone: but for the fields that tokenizer_config.json does not have.
    options.model_max_length = 77;
    TokenizerOptions base;
    base.mask = "";
    base.split.max_word_chars = 50;
    base.split.clean_text = options.split.clean_text;
    CHECK(read_tokenizer_config(to_tokenizer_config(options), base) == options);
  }
}

TEST_CASE("special tokens that are text stay text in a folder", "[unit][text][tokenizer_json]") {
  const Folder folder;
  TokenizerParts parts = read_tokenizer_json(written_by_the_package);
  parts.options.special_in_text = false;
  const Tokenizer tokenizer(parts.vocabulary, parts.options);
  const std::vector<std::int32_t> ids = tokenizer.encode("[E1]").ids;
  CHECK(ids != tokenizer_of(written_by_the_package).encode("[E1]").ids);
  folder.write("tokenizer.json", to_tokenizer_json(tokenizer));
  folder.write("tokenizer_config.json", to_tokenizer_config(tokenizer.options()));
  const Tokenizer again = load_tokenizer(folder.path());
  CHECK(again.options() == tokenizer.options());
  CHECK(again.encode("[E1]").ids == ids);
}

TEST_CASE("other kinds of tokenizers are named", "[unit][text][tokenizer_json]") {
  CHECK(refusal(with(R"("type": "BertNormalizer")", R"("type": "NFC")")) ==
        "read_tokenizer_json: file is \"t.json\", whose normalizer is \"NFC\", not "
        "\"BertNormalizer\", wanted a WordPiece tokenizer as BERT's [text.tokenizer_file]");
  CHECK(refused_for(with(R"("model": {"type": "WordPiece")", R"("model": {"type": "BPE")"),
                    "whose model is \"BPE\""));
  CHECK(refused_for(with("BertPreTokenizer", "ByteLevel"), "whose pre_tokenizer is \"ByteLevel\""));
  CHECK(refused_for(with("TemplateProcessing", "RobertaProcessing"), "\"RobertaProcessing\""));
  CHECK(refused_for(with(R"({"type": "WordPiece", "prefix")", R"({"type": "BPE", "prefix")"),
                    "whose decoder is \"BPE\""));
  CHECK(refused_for(with(R"("type_id": 1}}])", R"("type_id": 0}}])"), "template of two texts"));
  CHECK(
      refused_for(with(R"({"Sequence": {"id": "A", "type_id": 0}},)", ""), "template of one text"));
  CHECK(refused_for("[1]", "which is no JSON object"));
  CHECK(refused_for("{", "which is no JSON object"));
  CHECK(refused_for("", "which is no JSON object"));
  CHECK(refused_for(written_by_the_package + std::string("\0x", 2), "which is no JSON object"));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  CHECK(refused_for(with(R"("single": [)", "\"single\": [" + deep + ", "), "no JSON object"));
  CHECK(refused_for(with(R"("[UNK]": 1, "[P)", "\"[UNK]\": " + deep + ", \"[P"), "no JSON object"));
  CHECK(refused_for("{}", "which has no model"));
  CHECK(refused_for(R"({"model": 3})", "whose \"model\" is number and not an object"));
}

TEST_CASE("fields that cannot be right are refused", "[unit][text][tokenizer_json]") {
  CHECK(refused_for(with(R"("[UNK]": 1, "[P)", R"("[UNK]": 99999999, "[P)"),
                    "whose vocab gives \"[UNK]\" the id 99999999"));
  CHECK(refused_for(with(R"("[UNK]": 1, "[P)", R"("[UNK]": 0, "[P)"), "the id 0"));
  CHECK(refused_for(with(R"("[UNK]": 1, "[P)", R"("[UNK]": -1, "[P)"), "the id -1"));
  CHECK(refused_for(with(R"("[UNK]": 1, "[P)", R"("[UNK]": "1", "[P)"), "the id \"1\""));
  CHECK(refused_for(with(R"("vocab")", R"("words")"), "whose model has no vocab"));
  CHECK(refused_for(with(R"("lowercase": false)", R"("lowercase": 1)"), "\"lowercase\" is number"));
  CHECK(refused_for(with("\"max_input_chars_per_word\": 50", "\"max_input_chars_per_word\": -1"),
                    "\"max_input_chars_per_word\" is number"));
  CHECK(refused_for(with(R"("unk_token": "[UNK]")", R"("unk_token": [])"), "\"unk_token\""));
  CHECK(refused_for(with(R"("lstrip": false)", R"("lstrip": true)"), "\"[PAD]\" is lstrip"));
  CHECK(refused_for(with(R"("special": true)", R"("special": false)"), "is not special"));
  CHECK(refused_for(with(R"("content": "[E1]")", R"("content": "[E2]")"),
                    "\"[E2]\" has the id 4, which its vocab gives \"[E1]\""));
  CHECK(refused_for(with(R"({"id": 4, "special")", R"({"id": 5, "special")"),
                    "\"[E1]\" has the id 5, and its vocab gives it 4"));
  CHECK(refused_for(with(R"({"id": 4, "special": true, "content": "[E1]")",
                         R"({"id": 99999999, "special": true, "content": "[E9]")"),
                    "\"[E9]\" has the id 99999999"));
  CHECK(refused_for(with(R"("added_tokens": [)", R"("added_tokens": [7, )"), "no object around"));
  CHECK(refused_for(with(R"("content": "</s>")", R"("content": "[E1]")"), "\"[E1]\""));
}

TEST_CASE("tokenizer_config.json changes what it says", "[unit][text][tokenizer_json]") {
  const TokenizerOptions options = read_tokenizer_config(
      R"({"do_lower_case": false, "strip_accents": true, "tokenize_chinese_chars": false,
          "model_max_length": 512, "pad_token": "<pad>", "mask_token": {"content": "<mask>"},
          "unk_token": null, "never_heard_of": [], "truncation_side": "left"})");
  TokenizerOptions wanted;
  wanted.split = {.lowercase = false, .strip_accents = true, .chinese_chars = false};
  wanted.padding = "<pad>";
  wanted.mask = "<mask>";
  wanted.model_max_length = 512;
  wanted.truncation_side = TruncationSide::left;
  CHECK(options == wanted);
  CHECK(read_tokenizer_config("{}", wanted) == wanted);
  CHECK(read_tokenizer_config(R"({"model_max_length": 1000000000000000019884624838656})")
            .model_max_length == no_limit);
  CHECK(read_tokenizer_config(R"({"model_max_length": 512.0})").model_max_length == 512);
  CHECK(read_tokenizer_config(R"({"model_max_length": 1e3})").model_max_length == 1000);
  for (const char* length : {"-5", "-5.0", "0.5", "true"})
    CHECK(id_of([&] {
            read_tokenizer_config(std::string("{\"model_max_length\": ") + length + "}");
          }) == "text.tokenizer_file");
  // The package's own choice, not what was said before.
  CHECK(read_tokenizer_config(R"({"strip_accents": null})", wanted).split.strip_accents ==
        std::nullopt);
  CHECK_FALSE(read_tokenizer_config(R"({"split_special_tokens": true})").special_in_text);
  CHECK(read_tokenizer_config(R"({"split_special_tokens": false})", {.special_in_text = false})
            .special_in_text);
  CHECK(id_of([] { read_tokenizer_config(std::string_view("{}\0x", 4)); }) ==
        "text.tokenizer_file");
  CHECK(message_of([] { read_tokenizer_config(R"({"do_lower_case": "yes"})", {}, "c.json"); }) ==
        "read_tokenizer_config: file is \"c.json\", whose \"do_lower_case\" is string and not true "
        "or false, wanted a WordPiece tokenizer as BERT's [text.tokenizer_file]");
}

TEST_CASE("a folder's tokenizer is the one that its files describe",
          "[unit][text][tokenizer_json]") {
  const Folder folder;
  CHECK(id_of([&] { load_tokenizer(folder.path()); }) == "file.read");
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nThe\nthe\n");
  CHECK(load_tokenizer(folder.path()).encode("The").ids == std::vector<std::int32_t>{2, 5, 3});
  folder.write("tokenizer_config.json", R"({"do_lower_case": false, "model_max_length": 9})");
  const Tokenizer cased = load_tokenizer(folder.path());
  CHECK(cased.encode("The").ids == std::vector<std::int32_t>{2, 4, 3});
  CHECK(cased.options().model_max_length == 9);
  folder.write("tokenizer.json", written_by_the_package);
  const Tokenizer whole = load_tokenizer(folder.path());
  CHECK(whole.vocabulary().contains("<s>"));
  CHECK(whole.options().model_max_length == 9);
  folder.write("tokenizer_config.json", R"({"do_lower_case": true})");
  CHECK(load_tokenizer(folder.path()).options().split.lowercase);
  CHECK_FALSE(tokenizer_of(written_by_the_package).options().split.lowercase);
}
