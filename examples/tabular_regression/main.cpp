// tabular_regression: trains a network that predicts one column of a CSV file of numbers and
// categories: split, standardisation, early stop, save, load, predict.
//
//   tabular_regression                                           learns from made-up houses
//   tabular_regression --data houses.csv --target price --save price.safetensors
//   tabular_regression --load price.safetensors --data new.csv   a prediction a row

#include <soma/curves.hpp>
#include <soma/data/array_source.hpp>
#include <soma/io.hpp>
#include <soma/nn/number_tasks.hpp>
#include <soma/soma.hpp>
#include <soma/tables.hpp>
#include <soma/train.hpp>

#include <CLI/CLI.hpp>

#include <cmath>
#include <iostream>
#include <string>
#include <vector>

namespace {

using soma::text::Table;
using soma::text::TableEncoder;

struct Options {
  std::string data, target = "price", load, save = "houses.safetensors", plot, report;
  double held_out = 0.2;
  std::uint64_t epochs = 200, patience = 15, seed = 1;
  int threads = 0;
};

// Houses whose price is no linear function of the known columns, some of which have missing values.
std::string made_up_houses(std::size_t count) {
  constexpr const char* kinds[] = {"flat", "house", "castle"};
  std::string text = "area,rooms,kind,age,price\n";
  soma::DrawSequence draws({.seed = 1, .stream = soma::stream_id("houses", "rows")});
  for (std::size_t i = 0; i < count; ++i) {
    const auto between = [&](double low, double high) { return low + (high - low) * draws.unit(); };
    const double area = between(30, 250), age = between(0, 120);
    const auto rooms = static_cast<int>(area / 30 + between(0, 3));
    const std::size_t kind = draws.below(3);
    const double worth = kind == 2 ? 9000 - 20 * age : kind == 1 ? 5000 : 4200;
    const double price =
        (area * worth + 8000.0 * rooms) * (0.6 + 0.4 * std::exp(-age / 40)) * between(0.95, 1.05);
    text.append(draws.below(20) == 0 ? "NA" : std::to_string(area)).append(",");
    text.append(std::to_string(rooms)).append(",").append(kinds[kind]).append(",");
    text.append(draws.below(20) == 0 ? "" : std::to_string(age)).append(",");
    text.append(std::to_string(price)).append("\n");
  }
  return text;
}

// A saved file holds the network's weights, and in its metadata the encoder of rows.
constexpr const char* encoder_key = "table";

soma::models::Mlp make_net(soma::Context& context, const TableEncoder& encoder,
                           std::uint64_t seed) {
  const std::size_t sizes[] = {encoder.width(), 64, 64, 1};
  return soma::models::Mlp({context, seed, "net"}, sizes);
}

struct Loaded {
  TableEncoder encoder;
  soma::models::Mlp net;
};

Loaded load(soma::Context& context, const std::string& path) {
  const soma::SafetensorsFile file = soma::load_safetensors(context, path);
  for (const auto& [key, value] : file.metadata) {
    if (key != encoder_key) continue;
    Loaded loaded{TableEncoder::from_json(value, "metadata of " + soma::quoted(path)), {}};
    if (!loaded.encoder.classes().empty())
      soma::fail(soma::error_id::table_json, "tabular_regression",
                 "metadata of " + soma::quoted(path), "a target of categories", "one of numbers");
    loaded.net = make_net(context, loaded.encoder, 0);
    soma::nn::load(soma::nn::parameters(loaded.net), file.tensors);
    return loaded;
  }
  soma::fail(soma::error_id::table_json, "tabular_regression", "metadata of " + soma::quoted(path),
             "without a table", "a file that tabular_regression wrote");
}

// Predictions in the target's own unit, one for each row.
std::vector<double> predict(soma::Context& context, const Loaded& model, const Table& table,
                            std::span<const std::uint32_t> rows) {
  soma::Tape tape(context, {.record = false, .training = false});
  const soma::Var y = model.net(tape, tape.constant(model.encoder.encode(context, table, rows)));
  std::vector<double> answers;
  for (const float answer : y.value().span<float>())
    answers.push_back(model.encoder.in_units(static_cast<double>(answer)));
  return answers;
}

void train(soma::Context& context, const Options& options) {
  const Table table = options.data.empty()
                          ? soma::text::read_table_text(made_up_houses(4000))
                          : soma::text::read_table(options.data, {.numbers = {options.target}});
  const soma::data::RowSplit split =
      soma::data::split_rows(table.rows, options.held_out, options.seed);
  const TableEncoder encoder = TableEncoder::fit(table, options.target, split.train);
  const auto source = [&](std::span<const std::uint32_t> rows, bool shuffle) {
    return soma::data::ArraySource(
        context, encoder.encode(context, table, rows), encoder.targets(context, table, rows),
        {.batch_sequences = 64, .shuffle = shuffle, .seed = options.seed});
  };
  soma::data::ArraySource training = source(split.train, true),
                          held_out = source(split.validation, false);
  const soma::models::Mlp net = make_net(context, encoder, options.seed);
  soma::nn::RegressionTask task(net);
  soma::train::Trainer trainer(context, task,
                               {.epochs = options.epochs,
                                .learning_rate = 3e-3,
                                .schedule = {.decay = soma::optim::Decay::plateau, .patience = 5},
                                .patience = options.patience,
                                .keep_best = true});
  soma::train::RunCurves curves({.title = options.target, .file = options.plot});
  trainer.add(curves);
  const soma::train::Report report = trainer.fit(training, &held_out);
  std::cout << table.rows << " rows, " << encoder.width() << " features, "
            << split.validation.size() << " validation rows\n"
            << report;
  soma::save_safetensors(options.save, soma::nn::state_dict(task.parameters()),
                         {{encoder_key, encoder.to_json()}});

  // The file alone is enough for predictions.
  const Loaded saved = load(context, options.save);
  const std::vector<double> answers = predict(context, saved, table, split.validation);
  double squares = 0;
  const std::vector<double>& truth = table.column(options.target).numbers;
  for (std::size_t i = 0; i < answers.size(); ++i)
    squares += std::pow(answers[i] - truth[split.validation[i]], 2);
  std::cout << "saved in " << options.save << "; read again it predicts " << options.target
            << " up to " << std::sqrt(squares / static_cast<double>(answers.size()))
            << " (root mean square, validation)\n";
  for (std::size_t i = 0; i < 3 && i < answers.size(); ++i)
    std::cout << "  row " << split.validation[i] + 1 << ": predicted " << answers[i] << ", is "
              << truth[split.validation[i]] << '\n';
  std::cout << std::flush;
}

}  // namespace

int main(int count, char** given) {
  CLI::App app("Learns to predict a column of a CSV file from the other columns.");
  Options options;
  CLI::Option* data =
      app.add_option("--data", options.data, "CSV file with a header; default: generated houses");
  app.add_option("--target", options.target, "the column to predict")->capture_default_str();
  app.add_option("--save", options.save, "safetensors file for the net")->capture_default_str();
  app.add_option("--load", options.load, "predict each row of --data with the net in this file")
      ->needs(data);
  app.add_option("--plot", options.plot, "curves of the run as an SVG picture");
  app.add_option("--held-out", options.held_out, "share of held-out rows")
      ->check(CLI::Range(0.01, 0.9));
  app.add_option("--epochs", options.epochs)->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--patience", options.patience,
                 "end after this many evaluations without an improvement")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of split, weights and order")->capture_default_str();
  app.add_option("--threads", options.threads)->check(CLI::Range(0, soma::max_threads));
  try {
    app.parse(count, given);
    auto context = soma::make_context({.threads = options.threads});
    std::cout.precision(8);
    if (options.load.empty()) {
      train(context, options);
      return 0;
    }
    const Loaded model = load(context, options.load);
    const Table table = soma::text::read_table(options.data, model.encoder.reading());
    std::vector<std::uint32_t> rows(table.rows);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i);
    for (const double answer : predict(context, model, table, rows)) std::cout << answer << '\n';
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << error.what() << " [cli.usage]\n";
    return 2;
  } catch (const std::exception& error) {  // soma::Error is one
    std::cerr << error.what() << '\n';
    return 1;
  }
}
