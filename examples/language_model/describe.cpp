// describe: what a model's folder holds.

#include "language_model/commands.hpp"
#include "training/compute.hpp"

#include <soma/models/language_model.hpp>
#include <soma/soma.hpp>

#include <cstddef>
#include <iostream>

int describe(const DescribeOptions& options) {
  using namespace soma::models;
  Compute compute(options.compute);
  const LanguageModel model = LanguageModel::from_pretrained(compute.context(), options.model,
                                                             {.adapter = options.adapter});
  const DecoderConfig& config = model.config();
  std::size_t parameters = 0, adapters = 0;
  for (const soma::Parameter& parameter : model.parameters())
    (parameter.role == soma::ParameterRole::adapter ? adapters : parameters) +=
        parameter.value().elements();
  const soma::nn::DecoderOptions& layer = config.layer;
  const auto yes = [](bool what) { return what ? "yes" : "no"; };
  std::cout << "  kind              " << decoder_kind_names[static_cast<std::size_t>(config.kind)]
            << '\n'
            << "  parameters        " << parameters << '\n'
            << "  weights           " << to_string(model.file_type()) << '\n'
            << "  layers            " << config.layers << '\n'
            << "  width             " << layer.width << ", inner " << layer.inner << '\n'
            << "  heads             " << layer.heads << " of " << layer.head_size() << ", "
            << layer.groups() << " of keys and values\n"
            << "  positions         " << config.positions
            << (config.learned_positions ? ", learned\n" : ", rotary\n") << "  table of tokens   "
            << config.vocabulary << " rows, " << model.tokenizer().id_count()
            << " ids of the tokenizer\n"
            << "  tied head         " << yes(config.tied) << '\n'
            << "  end of a text     "
            << (model.end_id() < 0 ? "none" : model.tokenizer().bytes_of(model.end_id())) << '\n'
            << "  usual length      " << model.length() << '\n';
  if (model.adapted()) std::cout << "  adapter           " << adapters << " parameters\n";
  return 0;
}
