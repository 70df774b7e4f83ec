// Any bytes as the hyperparameters of a training job: refused, or options in their ranges.

#include "bert_classifier/train/options.hpp"
#include "check.hpp"
#include "training/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    std::vector<std::string> options =
        options_of_json(json_object(text, "hyperparameters"), "hyperparameters",
                        {"--decay-all", "--no-shuffle", "--resume", "--keep-best", "--quiet"});
    for (const std::string& option : options)
      soma_fuzz::check(option.starts_with("--"), "each is an option");
    CLI::App app;
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    TrainOptions train;
    add_options(app, train);
    std::reverse(options.begin(), options.end());
    app.parse(options);
    soma_fuzz::check(train.dropout < 1, "dropout is a share");
    soma_fuzz::check(train.batch_size > 0 && train.shards > 0, "batches hold something");
    const double share = train.data.held_out_share.value_or(0.1);
    soma_fuzz::check(share > 0 && share <= 0.9, "the held-out share leaves some");
    soma_fuzz::check(train.max_length == 0 || (train.max_length >= 3 && train.max_length <= 512),
                     "texts have a length, or the default");
    soma_fuzz::check(!(train.learning_rate != train.learning_rate), "the rate is a number");
  } catch (const UsageError&) {
  } catch (const CLI::ParseError&) {
  }
  return 0;
}
