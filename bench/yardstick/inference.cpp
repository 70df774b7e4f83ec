// soma's side of bench/inference.sh: answers of a Predictor on one thread.
//
//   soma_inference make base|minilm|tiny FOLDER   writes a classifier with random weights
//   soma_inference answer FOLDER TOKENS           loads it and answers one text
//   soma_inference work FOLDER                    reads lines "plain|packed LENGTH...": texts of so
//                                                 many tokens; prints the least CPU milliseconds of
//                                                 five calls for each line

#include <soma/models.hpp>
#include <soma/soma.hpp>

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using soma::models::Predictor;

int usage() {
  std::cerr << "soma_inference make base|minilm|tiny FOLDER | answer FOLDER TOKENS | work FOLDER\n";
  return 2;
}

int make(std::string_view kind, std::string_view folder) {
  auto context = soma::make_context({.threads = 1});
  soma::text::VocabularyTrainer trainer;
  trainer.add("the lamp was warm and the film was dull");
  const soma::models::BertConfig config = kind == "base"     ? soma::models::BertConfig::base()
                                          : kind == "minilm" ? soma::models::BertConfig::minilm()
                                                             : soma::models::BertConfig::tiny();
  const soma::models::TextClassifier model(context,
                                           soma::text::Tokenizer(trainer.train({.size = 60}), {}),
                                           config, {.labels = {"no", "yes"}, .seed = 1});
  model.save(folder);
  return 0;
}

// A text of so many tokens, with the two that every text has.
std::string text_of(std::size_t tokens) {
  std::string text;
  for (std::size_t i = 2; i < tokens; ++i) text.append(i % 2 == 0 ? "a " : "l ");
  return text;
}

double cpu_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

int work(std::string_view folder) {
  auto context = soma::make_context({.threads = 1});
  const Predictor plain(context, folder), packed(context, folder, {.packed = true});
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    std::vector<std::string> texts;
    for (std::size_t length = 0; words >> length;) texts.push_back(text_of(length));
    const std::vector<std::string_view> all(texts.begin(), texts.end());
    const Predictor& predictor = kind == "packed" ? packed : plain;
    predictor.predict(all);
    double least = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double start = cpu_milliseconds();
      predictor.predict(all);
      least = std::min(least, cpu_milliseconds() - start);
    }
    std::cout << least << std::endl;
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.size() == 3 && given[0] == "make") return make(given[1], given[2]);
  if (given.size() == 2 && given[0] == "work") return work(given[1]);
  if (given.size() != 3 || given[0] != "answer") return usage();
  auto context = soma::make_context({.threads = 1});
  const Predictor predictor(context, given[1]);
  std::cout << predictor.predict(text_of(std::stoul(given[2]))) << '\n';
  return 0;
}
