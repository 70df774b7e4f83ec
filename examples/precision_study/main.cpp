// precision_study: trains the same task under several precisions with several seeds each, and
// writes a table and a picture of the results.
//
//   precision_study --pretrained minilm --data train.tsv --dev dev.tsv --seeds 5
//
// Every finished run is a line of runs.jsonl: the same command continues from there.

#include "study.hpp"
#include "summary.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/folders.hpp>
#include <soma/io/json_lines.hpp>
#include <soma/io/precision_json.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

void add_options(CLI::App& app, StudyOptions& options) {
  app.add_option(
         "--policies", options.policies,
         "presets (" +
             [] {
               std::string names;
               for (const soma::Precision& preset : soma::precision_presets())
                 names.append(names.empty() ? "" : ", ").append(preset.name);
               return names;
             }() +
             ") and JSON files (docs/precision.md), separated by commas; the others are compared "
             "with the first")
      ->capture_default_str();
  app.add_option("--pretrained", options.pretrained,
                 "folder of a BERT model to fine-tune: config.json, model.safetensors, tokenizer "
                 "files; default: a new tiny model")
      ->type_name("DIR");
  app.add_option(
         "--data", options.data,
         "rows of text and label (tsv, csv, fastText, JSON lines); default: generated reviews")
      ->type_name("FILE|DIR");
  app.add_option("--dev", options.dev, "file of validation rows; default: a tenth of --data")
      ->type_name("FILE");
  app.add_option("--seeds", options.seeds, "runs of each policy, with seeds 1, 2 ...")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the data")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->capture_default_str();
  app.add_option("--max-steps", options.max_steps, "end after this many steps; 0: after all epochs")
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "texts per step")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 20))
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate,
                 "default: 1e-4 for a pretrained model, else 5e-4; falls linearly to 0");
  app.add_option("--dropout", options.dropout, "dropout of all layers")
      ->check(CLI::Range(0.0f, 0.99f))
      ->capture_default_str();
  app.add_option("--max-length", options.max_length, "most tokens of a text, longer texts are cut")
      ->capture_default_str();
  app.add_option("--reviews", options.reviews, "number of generated reviews without --data")
      ->check(CLI::Range(std::size_t{100}, std::size_t{10000000}))
      ->capture_default_str();
  app.add_option("--statistics-every", options.statistics_every,
                 "count underflow, saturation and unchanged weights in every step of this "
                 "interval, in the runs of the first seed; 0: never")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads; 0: one per core")->capture_default_str();
  app.add_option("--output", options.output,
                 "folder for table.md, table.csv, curves.svg, runs.jsonl")
      ->type_name("DIR")
      ->capture_default_str();
}

std::vector<soma::Precision> find_policies(const std::string& list) {
  std::vector<soma::Precision> found;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = (std::min)(list.find(',', begin), list.size());
    found.push_back(soma::find_precision(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (found[i].name == found[j].name)
        soma::fail(soma::error_id::train_precision, "precision_study", "policies",
                   "two of the name " + soma::quoted(found[i].name), "names that differ");
  return found;
}

// The existing results of these precisions, under the same conditions.
std::vector<RunResult> earlier_runs(const std::string& path, const std::string& conditions,
                                    const std::vector<soma::Precision>& policies) {
  std::vector<RunResult> results;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const RunResult result =
        to_result(soma::record_from_json(line, "a line of " + soma::quoted(path)));
    const bool wanted = std::ranges::any_of(policies, [&](const soma::Precision& policy) {
      return result.formats == to_string(policy);
    });
    if (wanted && result.conditions == conditions) results.push_back(result);
  }
  return results;
}

void write(const std::string& path, const std::string& text) {
  soma::AtomicFile file("precision_study", path);
  file.write(text);
  file.commit();
}

int study(const StudyOptions& options) {
  const std::vector<soma::Precision> policies = find_policies(options.policies);
  std::vector<std::string> names;
  for (const soma::Precision& policy : policies) names.push_back(policy.name);
  const StudyData data = study_data(options);
  soma::make_folders("precision_study", options.output);
  const std::string runs = options.output + "/runs.jsonl";
  std::vector<RunResult> results = earlier_runs(runs, conditions_of(options, data), policies);
  soma::JsonLines log(runs);
  std::vector<PolicySummary> all;
  const auto report = [&] {
    all = summarize(names, results);
    write(options.output + "/table.md", markdown_table(all));
    write(options.output + "/table.csv", csv_table(all));
    write(options.output + "/curves.svg",
          svg_picture(all, std::to_string(data.train.size()) + " texts, " +
                               std::to_string(data.held_out.size()) + " validation rows"));
  };
  for (std::uint64_t seed = 1; seed <= options.seeds; ++seed)
    for (const soma::Precision& policy : policies) {
      const bool done = std::ranges::any_of(results, [&](const RunResult& result) {
        return result.policy == policy.name && result.seed == seed;
      });
      if (done) continue;
      results.push_back(run_once(options, data, policy, seed));
      const RunResult& result = results.back();
      log.write(to_record(result));
      using soma::fixed;
      std::cerr << policy.name << ", seed " << seed << ": accuracy " << fixed(result.accuracy, 4)
                << ", loss " << fixed(result.train_loss, 4) << ", "
                << fixed(result.tokens_per_second, 0) << " tokens/s\n";
      report();
    }
  report();
  std::cout << markdown_table(all) << "\nin " << options.output
            << ": table.md, table.csv, curves.svg, runs.jsonl\n"
            << std::flush;
  return 0;
}

}  // namespace

int main(int count, char** given) {
  CLI::App app(
      "Trains the same task under several precisions and reports for each precision the accuracy "
      "with\nits spread, loss, memory, speed, and the share of values lost by rounding.");
  StudyOptions options;
  add_options(app, options);
  try {
    app.parse(count, given);
    return study(options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << error.what() << " [cli.usage]\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
