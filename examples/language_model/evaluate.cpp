// evaluate: the perplexity of documents.

#include "language_model/commands.hpp"
#include "language_model/rows.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"
#include "training/ending.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/record_json.hpp>
#include <soma/models/language_model.hpp>
#include <soma/soma.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace {

soma::models::LanguageModel make_model(soma::Context& context, const EvaluateOptions& options) {
  using soma::models::LanguageModel;
  soma::models::LanguageModelOptions settings{.length = options.text.length,
                                              .trained = trained_tokens(options.trained),
                                              .adapter = options.adapter};
  if (options.stride == 0) return LanguageModel::from_pretrained(context, options.model, settings);
  const soma::models::DecoderConfig config =
      soma::models::load_decoder_config(options.model).config;
  settings.length = soma::models::usual_length(config, options.text.length);
  if (options.stride > settings.length)
    throw UsageError("--stride " + std::to_string(options.stride) + " skips rows of windows of " +
                     std::to_string(settings.length));
  settings.overlap = settings.length - options.stride;
  return LanguageModel::from_pretrained(context, options.model, settings);
}

}  // namespace

int evaluate(const EvaluateOptions& options) {
  const std::vector<soma::text::DocumentRow> rows =
      soma::text::read_documents(options.data, document_options(options.text), "evaluate");
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  soma::models::LanguageModel model = make_model(context, options);
  const auto source = model.batches(rows, {.batch_sequences = options.batch_size, .shuffle = false},
                                    &stop_requested);
  soma::PrecisionState formats(context, soma::Precision::fp32(), 0);
  const auto measured = measure_test(context, model, *source, formats);
  if (!measured) throw Interrupted("evaluate: ended by a signal before the last batch");
  if (options.json) {
    soma::Record line("evaluation");
    line.set("loss", measured->loss);
    for (const soma::metrics::Value& value : measured->values)
      if (!std::isnan(value.value)) line.set(value.name, value.value);
    line.set("documents", std::uint64_t{rows.size()});
    line.set("sequences", std::uint64_t{source->windows().size()});
    line.set("tokens", std::uint64_t{source->targets()});
    std::cout << soma::to_json(line) << '\n';
    return 0;
  }
  std::cout << "  documents         " << rows.size() << '\n'
            << "  sequences         " << source->windows().size() << " of at most "
            << model.length() << " rows\n"
            << "  tokens            " << source->targets() << '\n'
            << "  loss              " << soma::fixed(measured->loss, 4) << '\n';
  for (const soma::metrics::Value& value : measured->values)
    std::cout << "  " << value.title
              << std::string(value.title.size() < 18 ? 18 - value.title.size() : 1, ' ')
              << soma::metrics::shown(value.value) << '\n';
  compute.report(std::cout);
  return 0;
}
