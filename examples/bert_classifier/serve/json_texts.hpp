// The texts of a JSON object: a body, or a line of one.
#pragma once

#include "bert_classifier/serve/texts.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace bodies {

// Accepts {"text": "..."}, {"inputs": "..."}, or a list under "inputs" or "instances"; for pairs
// {"text": "...", "text_pair": "..."}, such an object as "inputs", or a list of them. Reads the
// parser's events, because a tree would need many times the memory of the body.
class JsonTexts {
 public:
  using Json = nlohmann::json;

  // Error serve.body. `place` names the line in messages.
  static void read(std::string_view body, TextCollector& texts, const std::string& place = {}) {
    JsonTexts reader(texts, place);
    const bool whole = Json::sax_parse(body.begin(), body.end(), &reader);
    if (texts.full()) return;
    if (!whole && reader.problem_.empty()) reader.fail("no JSON");
    if (reader.problem_.empty() && reader.found_ != 1)
      reader.fail("an object with " + std::to_string(reader.found_) + " of them");
    if (!reader.problem_.empty()) bodies::refuse(reader.problem_, wanted(texts.form()));
  }

  // The parser calls these functions.
  bool start_object(std::size_t) {
    if (depth_ == 0) return enter();
    if (takes_item()) {
      item_depth_ = depth_ + 1;
      return enter();
    }
    return other_value() && enter();
  }
  bool end_object() {
    if (depth_ == item_depth_) {
      item_depth_ = 0;
      if (!end_item()) return false;
    } else if (depth_ == 1 && found_ == 1 && (text_ || pair_) && !end_item()) {
      return false;
    }
    return leave();
  }
  bool start_array(std::size_t) {
    const bool list = depth_ == 1 && (key_ == "inputs" || key_ == "instances");
    return list ? enter() : other_value() && enter();
  }
  bool end_array() { return leave(); }
  bool key(const std::string& name) {
    if (depth_ == item_depth_ && depth_ != 0) {
      item_key_ = name;
    } else if (depth_ == 1) {
      const bool wanted = name == "text" || name == "inputs" || name == "instances";
      key_ = wanted || name == "text_pair" ? name : std::string();
      found_ += wanted ? 1 : 0;
    }
    return true;
  }
  bool string(std::string& value) {
    if (depth_ == item_depth_ && depth_ != 0) {
      if (item_key_ == "text") text_ = std::move(value);
      if (item_key_ == "text_pair") pair_ = std::move(value);
      return true;
    }
    if (depth_ == 1 && key_ == "text") {
      text_ = std::move(value);
      return true;
    }
    if (depth_ == 1 && key_ == "text_pair") {
      pair_ = std::move(value);
      return true;
    }
    const bool taken = (depth_ == 1 && key_ == "inputs") ||
                       (depth_ == 2 && (key_ == "inputs" || key_ == "instances"));
    if (!taken) return other_value();
    texts_.add(std::move(value), place_);
    return !texts_.full();
  }
  bool number_unsigned(std::uint64_t) { return other_value(); }
  bool number_integer(std::int64_t) { return other_value(); }
  bool number_float(double, const std::string&) { return other_value(); }
  bool boolean(bool) { return other_value(); }
  bool null() { return other_value(); }
  bool binary(Json::binary_t&) { return other_value(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) {
    return fail("no JSON");
  }

 private:
  JsonTexts(TextCollector& texts, const std::string& place) : texts_(texts), place_(place) {}

  static std::string_view wanted(const soma::models::InputForm& form) {
    if (form.pairs == true)
      return "an object with \"text\" and \"text_pair\", or with such an object as \"inputs\", or "
             "a list of them: the model reads pairs";
    return "an object with one of \"text\": a string, \"inputs\": a string or a list of strings, "
           "\"instances\": such a list";
  }

  bool fail(std::string problem) {
    problem_ = std::move(problem) + place_;
    return false;
  }
  bool enter() {
    ++depth_;
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  // True if an object at this place is a pair of texts.
  bool takes_item() const {
    if (texts_.form().pairs == false) return false;
    return (depth_ == 1 && key_ == "inputs") ||
           (depth_ == 2 && item_depth_ == 0 && (key_ == "inputs" || key_ == "instances"));
  }
  // The end of an object with a text, or of one that should have a pair.
  bool end_item() {
    if (!text_) return fail("an object without \"text\"");
    if (pair_)
      texts_.add(*std::exchange(text_, std::nullopt), *std::exchange(pair_, std::nullopt), place_);
    else
      texts_.add(*std::exchange(text_, std::nullopt), place_);
    return !texts_.full();
  }
  // A value that is no text, which other members of an object may have.
  bool other_value() {
    if (depth_ == 0) return fail("no JSON object");
    if (item_depth_ != 0) {
      if (depth_ > item_depth_ || (item_key_ != "text" && item_key_ != "text_pair")) return true;
      return fail("an object whose \"" + item_key_ + "\" is no string");
    }
    if (key_.empty()) return true;
    if (depth_ > 1)
      return fail("an object whose \"" + key_ + "\" holds something else than strings");
    return fail("an object whose \"" + key_ + "\" is no " +
                (key_ == "text" || key_ == "text_pair" ? "string" : "list"));
  }

  TextCollector& texts_;
  const std::string& place_;
  std::string problem_;   // why an event was refused
  std::string key_;       // the object's current key, if its value may hold texts
  std::string item_key_;  // the same of an object inside
  std::size_t depth_ = 0;
  std::size_t item_depth_ = 0;  // an object with a pair of texts begins there; 0: none
  std::optional<std::string> text_, pair_;
  int found_ = 0;  // keys with texts
};

}  // namespace bodies
