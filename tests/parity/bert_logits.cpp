// Reads a classifier that another library saved, computes its logits, and saves it again.
//
//   bert_logits MODEL IDS LOGITS SAVED
//
// IDS is a text file: on each line the token ids of a sequence. LOGITS becomes a .npy of
// [sequences, labels], SAVED a folder like MODEL. See transformers.sh.

#include <soma/soma.hpp>

#include <soma/io.hpp>
#include <soma/models.hpp>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

int main(int count, char** arguments) {
  using namespace soma;
  if (count != 5) {
    std::fputs("usage: bert_logits MODEL IDS LOGITS SAVED\n", stderr);
    return 2;
  }
  try {
    auto context = make_context();
    const models::BertConfigFile file = models::load_bert_config(arguments[1]);
    const models::BertClassifier model(nn::Scope{context}, file.config, file.labels.size());
    const models::LoadedBert loaded = models::load_bert(context, model, arguments[1]);
    for (const std::string& name : loaded.fresh) std::printf("fresh: %s\n", name.c_str());
    for (const std::string& name : loaded.passed_over)
      std::printf("passed over: %s\n", name.c_str());
    if (!loaded.fresh.empty()) return 1;

    std::vector<std::vector<std::int64_t>> lists;
    std::ifstream lines(arguments[2]);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream numbers(line);
      std::vector<std::int64_t> ids;
      for (std::int64_t id = 0; numbers >> id;) ids.push_back(id);
      lists.push_back(ids);
    }
    Tape tape(context, {.training = false});
    const Var ids = tape.constant(make_ragged<std::int64_t>(context, lists));
    save_npy(arguments[3], model(tape, ids).value());
    save_bert(arguments[4], model, {.labels = file.labels, .pad_token = file.pad_token});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
