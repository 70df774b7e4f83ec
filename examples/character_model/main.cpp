// character_model: a causal transformer that learns to predict the next character, and writes text
// one character at a time. The text is the same for any number of threads.
//   character_model --text book.txt --save book.safetensors
//   character_model --load book.safetensors --steps 0 --begin "It was"
//   character_model --text book.txt --validate other.txt --precision mxfp8_up

#include "bert_classifier/train/reviews.hpp"

#include <CLI/CLI.hpp>
#include <soma/curves.hpp>
#include <soma/io.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/soma.hpp>
#include <soma/text/read_file.hpp>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <vector>

namespace {

// Characters seen at once, windows in a step.
constexpr std::size_t window = 64, windows = 16;

struct Options {
  std::string text, validate, load, save, plot, begin = "\n", precision = "fp32";
  std::size_t width = 64, steps = 1500, every = 100, length = 400;
  std::uint64_t seed = 1;
  int threads = 0;
};

std::string text_of(const Options& options) {
  if (!options.text.empty()) return soma::text::read_file("character_model", options.text);
  std::string text;
  for (const reviews::Review& review : reviews::generate(20000, 1, reviews::Split::train, 0))
    text.append(review.text).push_back('\n');
  return text;
}

// The indices of characters in the alphabet, which is ascending; other characters are left out.
std::vector<std::int32_t> ids_of(const std::string& alphabet, const std::string& text) {
  std::vector<std::int32_t> ids;
  for (const char letter : text)
    if (const std::size_t id = alphabet.find(letter); id != alphabet.npos)
      ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

// Sequences of equal length.
soma::Ragged ragged(soma::Context& context, const std::vector<std::int32_t>& ids,
                    std::size_t length) {
  const std::vector<std::size_t> lengths(ids.size() / length, length);
  return {soma::Tensor::from<std::int32_t>(context, ids, {ids.size()}),
          soma::Sequences::from_lengths(context, lengths)};
}

// Scores of the next character for each character: [rows] to [rows, letters]. It sees no later
// character.
struct Model {
  soma::Var operator()(soma::Tape& tape, const soma::Ragged& ids) const {
    const std::size_t length = ids.sequences.longest();
    std::vector<std::int32_t> places(ids.rows.elements());
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = static_cast<std::int32_t>(i % length);
    const soma::Var where = tape.constant(ragged(tape.context(), places, length));
    const soma::Var x = add(tape, letters(tape, tape.constant(ids)), positions(tape, where));
    return head(tape, norm(tape, encoder(tape, x)));
  }
  void collect(soma::nn::Collector& collector) const {
    collector.part("letters", letters);
    collector.part("positions", positions);
    collector.part("encoder", encoder);
    collector.part("norm", norm);
    collector.part("head", head);
  }

  soma::nn::Scope scope;
  std::size_t count, width;  // the number of letters, the hidden width
  soma::nn::TransformerOptions options{.width = width,
                                       .heads = 4,
                                       .inner = 4 * width,
                                       .layers = 2,
                                       .norm_first = true,
                                       .causal = true};
  soma::nn::Embedding letters{scope / "letters", count, width, 0.05f};
  soma::nn::Embedding positions{scope / "positions", window, width, 0.05f};
  soma::nn::TransformerEncoder encoder{scope / "encoder", options};
  soma::nn::LayerNorm norm{scope / "norm", width};
  soma::nn::Linear head{scope / "head", width, count, {.standard_deviation = 0.05f, .edge = true}};
};

// A preset or a file, whose weights are fp32.
soma::Precision precision_of(const std::string& name) {
  soma::Precision precision = soma::find_precision(name);
  if (precision.weights != soma::Quantizer{} || precision.moments != soma::Quantizer{} ||
      precision.loss_scaling)
    soma::fail(soma::error_id::train_precision, "character_model", "precision", precision.name,
               "one with fp32 weights and moments, and without a scale of the loss");
  return precision;
}

// The mean loss of all whole windows of the text, a step's windows at a time.
double loss_of(soma::Context& context, const Model& model, soma::PrecisionState& precision,
               const std::vector<std::int32_t>& text) {
  soma::Tape tape(context, {.record = false,
                            .training = false,
                            .activations = precision.activations(),
                            .precision = &precision});
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t first = 0; first + window < text.size(); first += windows * window) {
    const std::size_t room = (text.size() - 1 - first) / window;
    const std::size_t size = (std::min)(room, windows) * window;
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(size);
    tape.reset();
    const soma::Var scores = model(tape, ragged(context, {begin, end}, window));
    const soma::Var loss =
        cross_entropy(tape, scores, tape.constant(ragged(context, {begin + 1, end + 1}, window)));
    sum += static_cast<double>(loss.value().item<float>()) * static_cast<double>(size);
    count += size;
  }
  return sum / static_cast<double>(count);
}

// Trains on windows one behind the other through the text, and again from its beginning.
void learn(soma::Context& context, const Model& model, const Options& options,
           soma::PrecisionState& precision, const std::vector<std::int32_t>& text) {
  const soma::Parameters parameters = soma::nn::parameters(model);
  soma::optim::AdamW optimizer(context, soma::optim::decay_groups(parameters, 0.01f));
  const soma::optim::Schedule rate{3e-3, soma::optim::Decay::linear, options.steps / 20,
                                   options.steps};
  soma::train::RunCurves curves({.title = "characters", .file = options.plot});
  curves.on_start({.steps = options.steps});
  soma::Tape tape(
      context,
      {.seed = options.seed, .activations = precision.activations(), .precision = &precision});
  for (std::size_t step = 0; step < options.steps; ++step) {
    std::vector<std::int32_t> inputs, next;
    for (std::size_t i = 0; i < windows * window; ++i) {
      const std::size_t begin = (step * windows + i / window) * window;
      inputs.push_back(text[begin % (text.size() - window) + i % window]);
      next.push_back(text[begin % (text.size() - window) + i % window + 1]);
    }
    tape.reset(static_cast<std::uint32_t>(step));
    const soma::Var scores = model(tape, ragged(context, inputs, window));
    const soma::Var loss =
        cross_entropy(tape, scores, tape.constant(ragged(context, next, window)));
    tape.backward(loss);
    const double size = soma::optim::gradient_norm(context, parameters);
    const float clipping = soma::optim::clipping_factor(size, 1);
    optimizer.step({.rate = rate(step), .gradient_factor = clipping});
    precision.end_step();
    clear_gradients(parameters);
    const auto value = static_cast<double>(loss.value().item<float>());
    curves.on_step({.step = step + 1, .loss = value, .learning_rate = rate(step)});
    if ((step + 1) % options.every == 0)
      std::cout << "step " << step + 1 << "  loss " << soma::fixed(value, 8) << std::endl;
  }
  curves.on_end({});
}

// Continues the given beginning: each character is drawn by its probability.
std::string write(soma::Context& context, const Model& model, const std::string& alphabet,
                  const Options& options) {
  soma::Tape tape(context, {.record = false, .training = false});
  std::string text = options.begin;
  std::vector<std::int32_t> seen = ids_of(alphabet, text);
  if (seen.empty()) seen = {0};
  soma::DrawSequence draws(
      {.seed = options.seed, .stream = soma::stream_id("characters", "write")});
  for (std::size_t i = 0; i < options.length; ++i) {
    if (seen.size() > window) seen.erase(seen.begin(), seen.end() - window);
    tape.reset();
    const soma::Var chances = softmax(tape, model(tape, ragged(context, seen, seen.size())));
    std::vector<double> sums{0};
    for (const float chance : chances.value().select(0, seen.size() - 1).span<float>())
      sums.push_back(sums.back() + static_cast<double>(chance));
    const double drawn = draws.unit() * sums.back();
    const auto place = std::upper_bound(sums.begin() + 1, sums.end() - 1, drawn) - sums.begin();
    seen.push_back(static_cast<std::int32_t>(place - 1));
    text.push_back(alphabet[static_cast<std::size_t>(seen.back())]);
  }
  return text;
}

void run(const Options& options) {
  auto context = soma::make_context({.threads = options.threads});
  soma::SafetensorsFile file;
  if (!options.load.empty()) file = soma::load_safetensors(context, options.load);
  const std::string text = text_of(options);
  const std::set<char> letters(text.begin(), text.end());
  std::string alphabet(letters.begin(), letters.end());
  if (!options.load.empty()) {
    const soma::Tensor known = contiguous(context, file.at("alphabet"));
    alphabet.assign(reinterpret_cast<const char*>(known.raw()), known.bytes());
  }
  const std::vector<std::int32_t> ids = ids_of(alphabet, text);
  const std::vector<std::int32_t> others =
      options.validate.empty()
          ? ids
          : ids_of(alphabet, soma::text::read_file("character_model", options.validate));
  if (ids.size() <= window || others.size() <= window)
    soma::fail(soma::error_id::data_empty, "character_model", "text", "short", "over 64 letters");
  soma::PrecisionState precision(context, precision_of(options.precision), options.seed);
  const Model model{{context, options.seed}, alphabet.size(), options.width};
  const soma::Parameters parameters = soma::nn::parameters(model);
  if (!options.load.empty()) soma::nn::load(parameters, file.tensors);
  learn(context, model, options, precision, ids);
  if (!options.validate.empty())
    std::cout << "validation loss " << soma::fixed(loss_of(context, model, precision, others), 4)
              << std::endl;
  if (!options.save.empty()) {
    soma::StateDict state = soma::nn::state_dict(parameters);
    const std::vector<std::uint8_t> bytes(alphabet.begin(), alphabet.end());
    state.set("alphabet", soma::Tensor::from<std::uint8_t>(context, bytes, {bytes.size()}));
    soma::save_safetensors(options.save, state);
  }
  std::cout << write(context, model, alphabet, options) << std::endl;
}

}  // namespace

int main(int count, char** given) {
  CLI::App app("Learns to predict the next character of a text, and writes text.");
  Options options;
  app.add_option("--text", options.text, "file to learn from; default: generated reviews");
  app.add_option("--validate", options.validate, "file whose loss is printed after training");
  app.add_option("--precision", options.precision,
                 "preset, or a JSON file (docs/precision.md), for training and validation");
  app.add_option("--width", options.width, "hidden width, a multiple of the 4 heads")
      ->check(CLI::Range(4, 4096));
  app.add_option("--load", options.load, "start with the weights in this file");
  app.add_option("--save", options.save, "safetensors file for the weights and the alphabet");
  app.add_option("--plot", options.plot, "SVG picture of the loss");
  app.add_option("--begin", options.begin, "beginning of the written text");
  app.add_option("--steps", options.steps)->capture_default_str();
  app.add_option("--every", options.every, "steps between two printed lines")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "seed of the initial weights and of the written text");
  app.add_option("--threads", options.threads)->check(CLI::Range(0, soma::max_threads));
  try {
    app.parse(count, given);
    run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {  // soma::Error is one
    std::cerr << error.what() << '\n';
    return 1;
  }
}
