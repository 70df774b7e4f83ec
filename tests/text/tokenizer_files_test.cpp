// Settings of tokenizers in files: each key that the usual libraries write is honoured, harmless or
// refused, and what amounts to BERT's tokenizer is taken, however it is written.

#include <soma/base/model_keys.hpp>
#include <soma/text/tokenizer_json.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "text/files.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma::text;
using namespace soma_test;

namespace {

using Ids = std::vector<std::int32_t>;

// Ids:                              0     1     2     3    4  5 6 7   8    9    10   11
constexpr const char* vocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nfilm\nis\nf\n##ine\n!\n.\nThe\n";

// The parts of a tokenizer.json, by name; an empty one is left out.
struct Parts {
  std::string truncation = "null";
  std::string added = "[]";
  std::string normalizer = R"({"type":"BertNormalizer","clean_text":true,)"
                           R"("handle_chinese_chars":true,"strip_accents":null,"lowercase":true})";
  std::string pre_tokenizer = R"({"type":"BertPreTokenizer"})";
  std::string post_processor = R"({"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]})";
  std::string model = R"("type":"WordPiece","unk_token":"[UNK]",)"
                      R"("continuing_subword_prefix":"##","max_input_chars_per_word":100)";
  std::string vocab = R"("[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"the":4,"film":5,"is":6,"f":7,)"
                      R"("##ine":8,"!":9,".":10,"The":11)";

  std::string text() const {
    return R"({"version":"1.0","padding":null,"truncation":)" + truncation + R"(,"added_tokens":)" +
           added + R"(,"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer +
           R"(,"post_processor":)" + post_processor + R"(,"decoder":null,"model":{)" + model +
           R"(,"vocab":{)" + vocab + "}}}";
  }
};
Tokenizer tokenizer_of(const Parts& parts) {
  TokenizerParts read = read_tokenizer_json(parts.text());
  return Tokenizer(std::move(read.vocabulary), std::move(read.options));
}
std::string refusal(const Parts& parts) {
  return message_of([&] { read_tokenizer_json(parts.text(), "t.json"); });
}

// A folder with vocab.txt and the files given.
Tokenizer folder_of(const std::map<std::string, std::string>& files) {
  const TemporaryFolder folder;
  write_text(folder / "vocab.txt", vocabulary);
  for (const auto& [name, content] : files) write_text(folder / name, content);
  return load_tokenizer(folder.path());
}
std::string folder_refusal(const std::map<std::string, std::string>& files) {
  return message_of([&] { folder_of(files); });
}

// Values of a key that say something, tried one after the other.
std::vector<std::string> values_of(std::string_view key) {
  if (key == "normalizer")
    return {R"({"type":"BertNormalizer","clean_text":false,"handle_chinese_chars":true,)"
            R"("strip_accents":null,"lowercase":false})"};
  if (key == "truncation") return {R"({"direction":"Left","max_length":8})"};
  if (key == "padding") return {R"({"pad_token":"[UNK]"})"};
  if (key == "post_processor")
    return {R"({"type":"BertProcessing","sep":["the",4],"cls":["[CLS]",2]})"};
  if (key == "added_tokens")
    return {
        R"([{"id":12,"content":"[E1]","special":true},{"id":0,"content":"[PAD]",)"
        R"("special":true},{"id":1,"content":"[UNK]","special":true},{"id":2,"content":"[CLS]",)"
        R"("special":true},{"id":3,"content":"[SEP]","special":true}])"};
  if (key == "added_tokens_decoder") return {R"({"12":{"content":"[E1]","special":true}})"};
  if (key == "vocab") return {R"({"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"is":4})"};
  if (key == "tokenizer_class") return {"\"XLMRobertaTokenizer\""};
  if (key.find("special_tokens") != key.npos && key != "split_special_tokens")
    return {R"(["[E1]"])"};
  return {"true", "false", "7", "\"left\"", "\"[UNK]\"", "\"other\"", R"(["x"])", R"({"x":1})"};
}

// The whole of a tokenizer as its files describe it.
std::string print_of(const Tokenizer& tokenizer) {
  return to_tokenizer_json(tokenizer) + to_tokenizer_config(tokenizer.options());
}

// Holds a table to what happens: adds each key to an object, `load` reads it and says what came of
// it. Harmless keys change nothing whatever they say, refused keys are an error that names them,
// and honoured keys change something or are an error.
template <class Load>
void walk(ModelFile file, const Load& load) {
  const std::string before = load("never_heard_of", "[1, {}]");
  for_each_model_key(file, [&](const ModelKey& key) {
    const std::string name(key.key);
    bool refused = false, changed = false, named = false;
    for (const std::string& value : values_of(key.key)) {
      std::string after;
      const std::string problem = message_of([&] { after = load(name, value); });
      const bool is_error = problem.find("[text.") != std::string::npos;
      refused = refused || is_error;
      named = named || (is_error && problem.find(name) != std::string::npos);
      changed = changed || (!is_error && after != before);
    }
    INFO(name);
    if (key.use == KeyUse::harmless) CHECK_FALSE((refused || changed));
    if (key.use == KeyUse::honoured) CHECK((refused || changed));
    if (key.use != KeyUse::refused) return;
    CHECK(named);
    for (const std::string& value :
         {std::string("null"), std::string("false"), std::string("[]"), std::string("{}"),
          key.neutral.empty() ? "\"\"" : std::string(key.neutral)}) {
      INFO(value);
      CHECK(load(name, value) == before);
    }
  });
}

}  // namespace

TEST_CASE("every key of a tokenizer's files is honoured, harmless or refused",
          "[unit][text][tokenizer_json]") {
  walk(ModelFile::tokenizer_config, [](const std::string& key, const std::string& value) {
    return print_of(folder_of({{"tokenizer_config.json", "{\"" + key + "\":" + value + "}"}}));
  });
  walk(ModelFile::special_tokens, [](const std::string& key, const std::string& value) {
    return print_of(folder_of({{"special_tokens_map.json", "{\"" + key + "\":" + value + "}"}}));
  });
  // A key that is there twice has the value of the last.
  walk(ModelFile::tokenizer, [](const std::string& key, const std::string& value) {
    std::string text = Parts{}.text();
    text.pop_back();
    return print_of(folder_of({{"tokenizer.json", text + ",\"" + key + "\":" + value + "}"}}));
  });
  walk(ModelFile::tokenizer_model, [](const std::string& key, const std::string& value) {
    std::string text = Parts{}.text();
    text.resize(text.size() - 2);
    return print_of(folder_of({{"tokenizer.json", text + ",\"" + key + "\":" + value + "}}"}}));
  });
  walk(ModelFile::added_token, [](const std::string& key, const std::string& value) {
    std::string token = R"({"id":12,"content":"[E1]","special":true,")" + key + "\":" + value + "}";
    return print_of(
        folder_of({{"tokenizer_config.json", R"({"added_tokens_decoder":{"12":)" + token + "}}"}}));
  });
}

TEST_CASE("a WordPiece model without a type is one", "[unit][text][tokenizer_json]") {
  const std::string wanted = print_of(tokenizer_of({}));
  Parts parts;
  for (const char* model :
       {R"("unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100)",
        R"("unk_token":"[UNK]","max_input_chars_per_word":100)"}) {
    parts.model = model;
    CHECK(print_of(tokenizer_of(parts)) == wanted);
  }
  parts.model = R"("unk_token":"[UNK]")";  // may be WordLevel
  CHECK(refusal(parts).find("whose model is \"(none)\", not \"WordPiece\"") != std::string::npos);
  parts.model = R"("unk_token":"[UNK]","continuing_subword_prefix":"##","merges":["a b"])";
  CHECK(refusal(parts).find("whose \"merges\"") != std::string::npos);
}

TEST_CASE("sequences that amount to BERT's stages are taken", "[unit][text][tokenizer_json]") {
  const Parts bert;
  const std::string wanted = print_of(tokenizer_of(bert));
  const auto sequence = [](const char* list, const std::string& elements) {
    return std::string(R"({"type":"Sequence",")") + list + "\":[" + elements + "]}";
  };
  Parts parts;
  parts.normalizer = sequence("normalizers", bert.normalizer);
  parts.pre_tokenizer = sequence("pretokenizers", bert.pre_tokenizer);
  parts.post_processor = sequence("processors", bert.post_processor);
  CHECK(print_of(tokenizer_of(parts)) == wanted);
  parts.normalizer = sequence("normalizers", R"({"type":"Strip","strip_left":true},)" +
                                                 sequence("normalizers", bert.normalizer) +
                                                 R"(,{"type":"Lowercase"})");
  parts.pre_tokenizer =
      sequence("pretokenizers",
               R"({"type":"WhitespaceSplit"},{"type":"Punctuation","behavior":"Isolated"})");
  const Tokenizer same = tokenizer_of(parts);
  CHECK(same.encode("The film!").ids == Ids{2, 4, 5, 9, 3});
  CHECK(same.options().split.lowercase);

  // The effect of each combination of steps on the text.
  struct Case {
    const char* elements;
    bool clean, chinese, strip, lower;
  };
  for (const Case& each : {Case{R"({"type":"NFD"},{"type":"Lowercase"},{"type":"StripAccents"})",
                                false, false, true, true},
                           Case{R"({"type":"Lowercase"})", false, false, false, true},
                           Case{"", false, false, false, false},
                           Case{R"({"type":"BertNormalizer","clean_text":true,)"
                                R"("handle_chinese_chars":true,"strip_accents":null,)"
                                R"("lowercase":false},{"type":"Lowercase"})",
                                true, true, false, true},
                           Case{R"({"type":"BertNormalizer","clean_text":true,)"
                                R"("handle_chinese_chars":true,"strip_accents":false,)"
                                R"("lowercase":true},{"type":"NFD"},{"type":"StripAccents"})",
                                true, true, true, true}}) {
    Parts steps;
    steps.normalizer = sequence("normalizers", each.elements);
    const SplitOptions split = read_tokenizer_json(steps.text()).options.split;
    INFO(each.elements);
    CHECK(split.clean_text == each.clean);
    CHECK(split.chinese_chars == each.chinese);
    CHECK(split.strip_accents == each.strip);
    CHECK(split.lowercase == each.lower);
  }
  Parts none;
  none.normalizer = "null";
  CHECK(tokenizer_of(none).encode("The").ids == Ids{2, 11, 3});

  // The same words, whoever normalizes: an accent is stripped, and case is folded.
  Parts steps;
  steps.normalizer =
      sequence("normalizers", R"({"type":"NFD"},{"type":"Lowercase"},{"type":"StripAccents"})");
  CHECK(tokenizer_of(steps).encode("TH\xC3\x89 f\xC3\xAFne").ids == Ids{2, 4, 7, 8, 3});

  // A form that is not equivalent is named.
  const auto refused = [&](std::string Parts::*part, const std::string& by, const char* what) {
    Parts other;
    other.*part = by;
    INFO(refusal(other));
    CHECK(refusal(other).find(what) != std::string::npos);
  };
  refused(&Parts::normalizer, sequence("normalizers", R"({"type":"NFD"})"),
          "whose normalizer is \"NFD\"");
  refused(&Parts::normalizer, sequence("normalizers", R"({"type":"StripAccents"})"),
          "whose normalizer is \"StripAccents\"");
  refused(&Parts::normalizer,
          sequence("normalizers", bert.normalizer + R"(,{"type":"Replace","pattern":"a"})"),
          "whose normalizer is \"Replace\"");
  refused(&Parts::normalizer, sequence("normalizers", "7"), "whose normalizer holds no objects");
  refused(&Parts::normalizer, R"({"type":"Sequence"})", "a Sequence without \"normalizers\"");
  refused(&Parts::pre_tokenizer, "null", "which has no pre_tokenizer");
  refused(&Parts::pre_tokenizer, R"({"type":"WhitespaceSplit"})",
          "whose pre_tokenizer is \"WhitespaceSplit\"");
  refused(&Parts::pre_tokenizer, R"({"type":"Whitespace"})", "\"Whitespace\"");
  refused(&Parts::pre_tokenizer,
          sequence("pretokenizers", R"({"type":"WhitespaceSplit"},{"type":"Punctuation",)"
                                    R"("behavior":"Removed"})"),
          "\"Punctuation\"");
  refused(&Parts::pre_tokenizer,
          sequence("pretokenizers", bert.pre_tokenizer + R"(,{"type":"Digits"})"), "\"Digits\"");
  refused(&Parts::post_processor, "null", "which has no post_processor");
  refused(&Parts::post_processor,
          sequence("processors", bert.post_processor + "," + bert.post_processor),
          "a Sequence of several");
  refused(&Parts::post_processor,
          R"({"type":"BertProcessing","sep":["[SEP]",4],"cls":["[CLS]",2]})",
          "puts 4 for \"[SEP]\"");
}

TEST_CASE("ids of a vocabulary may have holes", "[unit][text][tokenizer_json]") {
  Parts parts;
  parts.vocab = R"("[PAD]":0,"[UNK]":3,"[CLS]":5,"[SEP]":6,"the":9,"f":12,"##ine":30)";
  parts.post_processor = R"({"type":"BertProcessing","sep":["[SEP]",6],"cls":["[CLS]",5]})";
  const Tokenizer tokenizer = tokenizer_of(parts);
  CHECK(tokenizer.vocabulary().size() == 31);
  CHECK(tokenizer.encode("the fine film").ids == Ids{5, 9, 12, 30, 3, 6});
  CHECK(tokenizer.decode(tokenizer.encode("the fine").ids) == "the fine");
  // Both ways.
  const TokenizerParts again = read_tokenizer_json(to_tokenizer_json(tokenizer));
  CHECK(again.vocabulary == tokenizer.vocabulary());
}

TEST_CASE("texts are cut at the end that the files say", "[unit][text][tokenizer_json]") {
  const std::string text = "the film is fine !";
  for (const Tokenizer& tokenizer :
       {folder_of({{"tokenizer_config.json", R"({"truncation_side":"left"})"}}),
        tokenizer_of({.truncation = R"({"direction":"Left","max_length":99})"})}) {
    CHECK(tokenizer.options().truncation_side == TruncationSide::left);
    CHECK(tokenizer.encode(text, {.max_length = 5}).ids == Ids{2, 7, 8, 9, 3});
    CHECK(tokenizer.encode(text, {.max_length = 99}).ids == Ids{2, 4, 5, 6, 7, 8, 9, 3});
    Ids ids{77};
    tokenizer.encode_ids(text, 4, ids);
    CHECK(ids == Ids{77, 2, 8, 9, 3});
    const Encoding cut = tokenizer.encode(text, {.max_length = 4, .offsets = true});
    CHECK(cut.offsets[1].begin == 13);
    CHECK(cut.offsets[2].begin == 17);
    // In a pair, the longer text loses its beginning.
    CHECK(tokenizer.encode(text, "the film", {.max_length = 7}).ids == Ids{2, 8, 9, 3, 4, 5, 3});
    CHECK(folder_of({{"tokenizer_config.json", to_tokenizer_config(tokenizer.options())}})
              .options()
              .truncation_side == TruncationSide::left);
  }
  CHECK(folder_of({}).encode(text, {.max_length = 5}).ids == Ids{2, 4, 5, 6, 3});
  // The file of the tokenizer is the default of the other.
  CHECK(folder_of({{"tokenizer.json", Parts{.truncation = R"({"direction":"Left"})"}.text()},
                   {"tokenizer_config.json", R"({"truncation_side":"right"})"}})
            .options()
            .truncation_side == TruncationSide::right);
  CHECK(folder_refusal({{"tokenizer_config.json", R"({"truncation_side":"middle"})"}})
            .find("whose \"truncation_side\" is \"middle\"") != std::string::npos);
}

TEST_CASE("special tokens come from the file that the usual library takes them from",
          "[unit][text][tokenizer_json]") {
  // Alone, as texts or as objects.
  const char* map = R"({"cls_token":"the","sep_token":{"content":"is","lstrip":false},)"
                    R"("additional_special_tokens":["film","[E1]"],"bos_token":"[BOS]"})";
  const Tokenizer alone = folder_of({{"special_tokens_map.json", map}});
  CHECK(alone.encode("filmf").ids == Ids{4, 5, 7, 6});
  // A token that no file gives an id follows the vocabulary; bos_token is none of BERT's.
  CHECK(alone.encode("[E1] [BOS]").ids == Ids{4, 12, 1, 1, 1, 6});
  CHECK(alone.vocabulary().size() == 13);
  // Beside tokenizer_config.json it wins, unless that has added_tokens_decoder.
  CHECK(folder_of({{"special_tokens_map.json", map},
                   {"tokenizer_config.json", R"({"cls_token":"film"})"}})
            .start_id() == 4);
  CHECK(folder_of({{"special_tokens_map.json", map},
                   {"tokenizer_config.json", R"({"cls_token":"film","added_tokens_decoder":{}})"}})
            .start_id() == 5);
  // Ids of added_tokens.json and of added_tokens_decoder: special ones only.
  const Tokenizer added =
      folder_of({{"special_tokens_map.json", R"({"additional_special_tokens":["[E1]","[E2]"]})"},
                 {"added_tokens.json", R"({"[E2]":12,"[E1]":15})"}});
  CHECK(added.encode("[E1][E2]").ids == Ids{2, 15, 12, 3});
  CHECK(added.vocabulary().size() == 16);
  CHECK(added.is_special(15));
  CHECK(folder_refusal({{"added_tokens.json", R"({"word":12})"}})
            .find("whose added token \"word\" is not special") != std::string::npos);
  CHECK(folder_of({{"added_tokens.json", "{}"}}).vocabulary().size() == 12);
  const auto decoder = [](const std::string& entry) {
    return std::map<std::string, std::string>{
        {"tokenizer_config.json", R"({"added_tokens_decoder":{)" + entry + "}}"}};
  };
  CHECK(folder_of(decoder(R"("12":{"content":"NUM","special":true})")).encode("NUM num").ids ==
        Ids{2, 12, 1, 3});
  CHECK(folder_refusal(decoder(R"("12":{"content":"NUM","special":false})")).find("not special") !=
        std::string::npos);
  CHECK(folder_refusal(decoder(R"("12":{"content":"NUM","special":true,"rstrip":true})"))
            .find("\"NUM\" is rstrip") != std::string::npos);
  CHECK(folder_refusal(decoder(R"("5":{"content":"NUM","special":true})"))
            .find("\"NUM\" has the id 5, which its vocab gives \"film\"") != std::string::npos);
  for (const char* id : {"-1", "x", "99999999999999999999"})
    CHECK(folder_refusal(decoder("\"" + std::string(id) + R"(":{"content":"NUM","special":true})"))
              .find("has the id") != std::string::npos);
  // An added token stays added when it is written: "num" is still no word.
  const Tokenizer again = folder_of(
      {{"tokenizer.json",
        to_tokenizer_json(folder_of(decoder(R"("12":{"content":"num","special":true})")))}});
  CHECK(again.encode("num NUM").ids == Ids{2, 12, 1, 3});
}

TEST_CASE("tokenizers of another class are refused", "[unit][text][tokenizer_json]") {
  const auto of_class = [](const char* name) {
    return std::map<std::string, std::string>{
        {"tokenizer_config.json", R"({"tokenizer_class":")" + std::string(name) + "\"}"}};
  };
  for (const char* name :
       {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizerFast", "ElectraTokenizer"})
    CHECK(folder_of(of_class(name)).vocabulary().size() == 12);
  for (const char* name : {"BertJapaneseTokenizer", "XLMRobertaTokenizer", "T5TokenizerFast",
                           "FunnelTokenizer", "Fast", "bert"})
    CHECK(folder_refusal(of_class(name)).find(name) != std::string::npos);
  // One that says nothing needs the file that says it.
  for (const char* name : {"PreTrainedTokenizerFast", "TokenizersBackend"}) {
    auto files = of_class(name);
    CHECK(folder_refusal(files).find("without a tokenizer.json") != std::string::npos);
    files["tokenizer.json"] = Parts{}.text();
    CHECK(folder_of(files).vocabulary().size() == 12);
  }
  // The model's own file says it where the tokenizer's does not.
  const TemporaryFolder folder;
  write_text(folder / "vocab.txt", vocabulary);
  CHECK(load_tokenizer(folder.path(), "BertTokenizer").vocabulary().size() == 12);
  CHECK(message_of([&] {
          load_tokenizer(folder.path(), "BertJapaneseTokenizer");
        }).find("whose \"tokenizer_class\", as config.json has, is \"BertJapaneseTokenizer\"") !=
        std::string::npos);
  write_text(folder / "tokenizer_config.json", R"({"tokenizer_class":"BertTokenizer"})");
  CHECK(load_tokenizer(folder.path(), "BertJapaneseTokenizer").vocabulary().size() == 12);
}
