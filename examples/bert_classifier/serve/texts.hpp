// The texts of a request, and what a model wants of them.
#pragma once

#include <soma/base/error.hpp>
#include <soma/models/input_form.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bodies {

[[noreturn]] inline void refuse(std::string_view given, std::string_view wanted) {
  soma::fail(soma::ErrorId{"serve.body"}, "POST /invocations", "the body", given, wanted);
}

// `pairs`: the second text of each text, or none for single texts.
struct Texts {
  std::vector<std::string> texts{}, pairs{};

  std::size_t size() const { return texts.size(); }
};

// Collects the texts of a body in the form that the model wants, up to a number of texts. A folder
// that does not say its form takes either, the same for all texts of a body.
class TextCollector {
 public:
  // `form` must outlive the object.
  TextCollector(const soma::models::InputForm& form, std::size_t most)
      : form_(&form), most_(most) {}

  const soma::models::InputForm& form() const { return *form_; }
  std::size_t size() const { return texts_.size(); }
  bool full() const { return texts_.size() >= most_; }
  // Error serve.body.
  void add(std::string text, const std::string& place) {
    if (form_->pairs == true || !texts_.pairs.empty())
      refuse("with one text" + place, "a pair of texts, as the model reads them");
    texts_.texts.push_back(std::move(text));
  }
  void add(std::string text, std::string pair, const std::string& place) {
    if (form_->pairs == false || texts_.texts.size() != texts_.pairs.size())
      refuse("with a pair of texts" + place, "one text, as the model reads it");
    texts_.texts.push_back(std::move(text));
    texts_.pairs.push_back(std::move(pair));
  }
  // Error serve.body: no text.
  Texts take() {
    if (texts_.texts.empty()) refuse("without a text", "at least one text");
    return std::move(texts_);
  }

 private:
  const soma::models::InputForm* form_;
  std::size_t most_;
  Texts texts_;
};

}  // namespace bodies
