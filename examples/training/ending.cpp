#include "training/ending.hpp"

#include "training/launch/launch.hpp"
#include "training/stop.hpp"

#include <soma/base/fixed.hpp>
#include <soma/train/stoppable_source.hpp>

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

Kept what_to_keep(const RunOptions& given, const soma::train::Report& report) {
  if (!report.interrupted) return Kept::model;
  if (!given.checkpoint.empty()) return Kept::checkpoint;
  if (given.output.empty() || report.steps == 0) return Kept::nothing;
  std::error_code problem;
  const bool free = !std::filesystem::exists(given.output, problem) ||
                    std::filesystem::is_empty(given.output, problem);
  return report.complete || free ? Kept::model : Kept::nothing;
}

std::optional<soma::train::Evaluation> measure_test(soma::Context& context, soma::nn::Task& model,
                                                    soma::data::BatchSource& rows,
                                                    soma::PrecisionState& precision) {
  using soma::train::StoppableSource;
  soma::train::Ranks alone;
  StoppableSource source(rows, &stop_requested, alone, StoppableSource::When::between_batches);
  soma::train::Evaluation evaluation = soma::train::evaluate(context, model, source, &precision);
  if (source.cut()) return std::nullopt;
  return evaluation;
}

void print_test(const soma::train::Evaluation& evaluation) {
  using soma::fixed;
  std::cout << "  test loss         " << fixed(evaluation.loss, 4) << '\n';
  for (const soma::metrics::Value& value : evaluation.values)
    std::cout << "  test " << value.title
              << std::string(value.title.size() < 13 ? 13 - value.title.size() : 1, ' ')
              << soma::metrics::shown(value.value) << '\n';
}

int say_ending(const RunOptions& given, Launch& launch, const soma::train::Report& report,
               Kept kept, std::uint64_t steps) {
  if (kept == Kept::checkpoint)
    std::cout << "stopped by a signal; --resume continues from the checkpoint\n";
  else if (kept == Kept::model && launch.rank() == 0 && !given.output.empty())
    std::cout << "  model             " << given.output << '\n';
  std::cout << std::flush;
  if (!report.interrupted || kept == Kept::checkpoint || (report.complete && kept == Kept::model))
    return 0;
  launch.tell("train: ended by a signal after step " + std::to_string(report.steps) +
              (steps == 0 ? "" : " of " + std::to_string(steps)) +
              (kept == Kept::model ? "; the model is kept as of this step"
                                   : "; nothing is kept without --checkpoint") +
              " [cli.interrupted]");
  return 1;
}
