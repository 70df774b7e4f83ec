// language_model: fine-tunes decoder-only language models, measures them, and lets them write.
//   0 done, 1 the run failed, 2 it was called wrongly. Errors are one line that ends with an id.

#include "language_model/commands.hpp"
#include "training/arguments.hpp"
#include "training/launch/launch.hpp"
#include "training/program.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

namespace {

constexpr const char* epilogue = R"(
Examples
  language_model train --model gpt2 --data letters.txt --divider=--- --output tuned
  language_model train --model smollm2-135m --data questions.jsonl --output tuned
  language_model train --model gpt2 --data letters.jsonl --lora 8 --output adapter
  language_model merge --model gpt2 --adapter adapter --output tuned
  language_model evaluate --model tuned --data held_out.txt --stride 512
  language_model generate --model tuned --prompt "Dear " --temperature 0.8 --seed 1
  mpirun -n 4 language_model train --model gpt2 --data letters.jsonl --output tuned

Rows of questions.jsonl: {"prompt": "...", "answer": "..."}; of letters.jsonl: {"text": "..."}
A JSON file may hold options with one value each: language_model train --config options.json
Exit code: 0 done, 1 the run failed, 2 the command line cannot be understood.)";

struct Program {
  CLI::App app{"Fine-tunes decoder-only language models.", "language_model"};
  TrainOptions train;
  PlanCommand plan;
  EvaluateOptions evaluate;
  GenerateOptions generate;
  DescribeOptions describe;
  MergeOptions merge;

  Program() {
    set_up(app, "language_model");
    app.footer(epilogue);
    add_options(
        add_command(app, "train", "trains a model on documents, or on prompts with answers"),
        train);
    add_options(add_command(app, "plan", "prints how fast and large a training would be on ranks"),
                plan);
    add_options(add_command(app, "evaluate", "measures the perplexity of documents"), evaluate);
    add_options(add_command(app, "generate", "writes texts that continue prompts"), generate);
    add_options(add_command(app, "describe", "describes a model's folder"), describe);
    add_options(add_command(app, "merge", "adds an adapter to its model's weights"), merge);
  }

  int run(Launch& launch, const std::vector<std::string>& command) {
    const std::string name = app.get_subcommands().front()->get_name();
    if (name == "train") return ::train(train, launch, command);
    check_alone(name);
    if (name == "generate") return ::generate(generate);
    if (name == "plan") return ::plan(plan, launch);
    if (name == "merge") return ::merge(merge);
    return name == "evaluate" ? ::evaluate(evaluate) : ::describe(describe);
  }
};

}  // namespace

int main(int count, char** given) {
  prepare_process();
  Launch launch;
  return run_program(launch, [&] {
    Program program;
    std::vector<std::string> arguments(given + 1, given + count), command = arguments;
    command.insert(command.begin(), given[0]);
    if (!arguments.empty())
      arguments = with_config(arguments, options_of(program.app, arguments.front(), true));
    return parse(program.app, std::move(arguments)) ? program.run(launch, command) : 0;
  });
}
