// Models of random layers, from lines: "input sequence 5 4", "layer gru 6", "layer mean", "head 3".
#pragma once

#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "between/layers.hpp"
#include "between/lines.hpp"
#include "support/precisions.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace soma_test {

// Why lines make no model: such a program is passed over.
struct NoProgram {
  std::string why;
};

inline std::size_t number_in(const std::vector<std::string>& words, std::size_t i) {
  if (i >= words.size() || words[i].find_first_not_of("0123456789") != std::string::npos)
    throw NoProgram{"a number is missing"};
  return std::stoul(words[i]);
}

// The value of "<key> <value>" in the lines.
inline std::string value_in(const Lines& lines, const std::string& key, std::string value) {
  for (const std::string& line : lines)
    if (const std::vector<std::string> words = words_of(line); words.size() > 1 && words[0] == key)
      value = words[1];
  return value;
}

// The precision that the lines name, for their layers.
inline soma::Precision precision_in(const Lines& lines) {
  const std::string name = value_in(lines, "precision", "");
  std::vector<std::string> convolutions{"first", "*.conv"};
  std::size_t number = 0;
  for (const std::string& line : lines)
    if (const std::vector<std::string> words = words_of(line);
        words.size() > 1 && words[0] == "layer" && ++number != 0 && words[1] == "conv")
      convolutions.push_back("l" + std::to_string(number));
  return with_convolutions(name.empty() ? soma::Precision::fp32() : any_precision(name),
                           convolutions);
}

struct Layers : soma::nn::Sequential {
  bool recompute = false;
  template <class Layer>
  void add(const std::string& name, const Layer& layer) {
    if (recompute)
      Sequential::add(name, Again<Layer>{layer});
    else
      Sequential::add(name, layer);
  }
};

// A model, and the shape of one of its inputs.
struct RandomModel {
  Layers layers;
  soma::Shape input;
  std::size_t tokens = 0;  // not 0: the input is ids below this
  std::size_t classes = 2;
};

inline void add_layer(const soma::nn::Scope& scope, const std::vector<std::string>& words,
                      const std::string& name, RandomModel& model, soma::Shape& shape) {
  using namespace soma;
  const nn::Scope own = scope / name;
  const std::string& kind = words.at(1);
  const std::size_t rank = shape.rank();
  const auto wide = [&] { return number_in(words, 2); };
  const auto need = [&](bool holds) {
    if (!holds) throw NoProgram{"a layer that does not fit: " + kind};
  };
  const auto function = [&](auto call) { model.layers.add(name, call); };
  if (kind == "linear") {
    need(rank < 3);
    model.layers.add(name, nn::Linear(own, shape.columns(), wide()));
    shape = shape.with(rank - 1, wide());
  } else if (kind == "residual") {
    need(rank < 3);
    model.layers.add(name, Residual{nn::Linear(own / "linear", shape.columns(), shape.columns())});
  } else if (kind == "product") {
    need(rank < 3);
    model.layers.add(
        name, Projection{nn::initial_parameter(own, Shape{shape.columns(), wide()},
                                               {nn::Initial::uniform(0.5f, own.draw("weight"))})});
    shape = shape.with(rank - 1, wide());
  } else if (kind == "frozen" || kind == "shared" || kind == "unused") {
    need(rank < 3);
    const Shape square{shape.columns(), shape.columns()};
    const Use use = kind == "frozen" ? Use::frozen : kind == "shared" ? Use::shared : Use::unused;
    model.layers.add(
        name,
        Parametrised{use, nn::initial_parameter(own, square,
                                                {nn::Initial::uniform(0.5f, own.draw("weight"))})});
  } else if (kind == "broadcast") {  // one number for each row of time, plane or input
    const Shape one = rank == 1 ? Shape{1} : rank == 2 ? Shape{shape[0], 1} : Shape{shape[0], 1, 1};
    model.layers.add(name, Parametrised{Use::broadcast,
                                        nn::initial_parameter(own, one, {nn::Initial::full(1)})});
  } else if (kind == "norm") {
    need(rank < 3);
    model.layers.add(name, nn::LayerNorm(own, shape.columns()));
  } else if (kind == "rms") {
    need(rank < 3);
    model.layers.add(name, nn::RmsNorm(own, shape.columns()));
  } else if (kind == "dropout") {
    model.layers.add(name, nn::Dropout(own, 0.25f));
  } else if (kind == "nothing") {
    model.layers.add(name, nn::Dropout(own, 0));
  } else if (kind == "gru" || kind == "lstm") {
    need(rank == 2);
    const std::size_t in = shape[1];
    const bool lstm = kind == "lstm";
    model.layers.add(name, OfSequence{lstm, lstm ? nn::Gru() : nn::Gru(own / "gru", in, wide()),
                                      lstm ? nn::Lstm(own / "lstm", in, wide()) : nn::Lstm()});
    shape = shape.with(1, wide());
  } else if (kind == "along_time") {
    need(rank == 2);
    model.layers.add(name, AlongTime{nn::Conv1d(own / "conv", shape[1], wide(), 3, {.pad = 1})});
    shape = shape.with(1, wide());
  } else if (kind == "conv") {
    need(rank == 3);
    model.layers.add(
        name, nn::Conv2d(own, shape[0], wide(), 3, {.setting = {.pad_height = 1, .pad_width = 1}}));
    shape = shape.with(0, wide());
  } else if (kind == "batch_norm") {
    need(rank == 3 || rank == 1);
    if (rank == 3)
      model.layers.add(name, nn::BatchNorm2d(own, shape[0]));
    else
      model.layers.add(name, nn::BatchNorm1d(own, shape[0]));
  } else if (kind == "pool") {
    need(rank == 3 && shape[1] > 1 && shape[2] > 1);
    function([](Tape& tape, const Var& x) { return max_pool2d(tape, x); });
    shape = Shape{shape[0], shape[1] / 2, shape[2] / 2};
  } else if (kind == "average") {
    need(rank == 3);
    model.layers.add(name, nn::AdaptiveAveragePool2d(1, 2));
    shape = Shape{shape[0], 1, 2};
  } else if (kind == "mean") {
    need(rank > 1);
    if (rank == 2)
      function([](Tape& tape, const Var& x) { return mean(tape, x, 0b10); });
    else
      function([](Tape& tape, const Var& x) { return mean(tape, x, 0b1100); });
    shape = rank == 2 ? Shape{shape[1]} : Shape{shape[0]};
  } else if (kind == "flatten") {
    need(rank > 1);
    model.layers.add(name, nn::Flatten());
    shape = Shape{shape.elements()};
  } else if (kind == "time_first") {
    need(rank == 2);
    model.layers.add(name, TimeFirst{nn::Linear(own / "linear", shape[1], wide()),
                                     nn::Dropout(own / "dropout", 0.25f)});
    shape = shape.with(1, wide());
  } else if (kind == "mean_time_first") {
    need(rank == 2);
    function([](Tape& tape, const Var& x) { return mean(tape, transpose(tape, x, 0, 1), 0b1); });
    shape = Shape{shape[1]};
  } else if (kind == "softmax_time") {
    need(rank == 2);
    function([](Tape& tape, const Var& x) { return softmax(tape, x, 1); });
  } else if (kind == "max_time") {
    need(rank == 2);
    function([](Tape& tape, const Var& x) { return max(tape, x, 1).values; });
    shape = Shape{shape[1]};
  } else if (kind == "drop_number") {  // a number of each input, and dropout of [B]
    need(rank == 1);
    const nn::Dropout drop(own, 0.5f);
    function([drop](Tape& tape, const Var& x) {
      const Var numbers = drop(tape, max(tape, x, 1).values);
      return reshape(tape, numbers, Shape{numbers.shape()[0], 1});
    });
    shape = Shape{1};
  } else if (kind == "turn") {  // [B, T, C] to [B, C, T]
    need(rank == 2);
    function([](Tape& tape, const Var& x) { return transpose(tape, x, 1, 2); });
    shape = Shape{shape[1], shape[0]};
  } else if (kind == "tanh") {
    function([](Tape& tape, const Var& x) { return tanh(tape, x); });
  } else if (kind == "relu") {
    function([](Tape& tape, const Var& x) { return relu(tape, x); });
  } else {
    throw NoProgram{"no layer: " + kind};
  }
}

inline RandomModel model_of(const soma::nn::Scope& scope, const Lines& lines,
                            bool recompute = false) {
  using namespace soma;
  RandomModel model;
  model.layers.recompute = recompute;
  Shape shape;
  std::size_t number = 0;
  const auto to_type = [&](bool activations) {
    model.layers.add("type" + std::to_string(number++), [=](Tape& tape, const Var& x) {
      const DType to = activations ? tape.options().activations : DType::fp32;
      return x.value().dtype() == to ? x : cast(tape, x, to);
    });
  };
  for (const std::string& line : lines) {
    const std::vector<std::string> words = words_of(line);
    if (words[0] == "input") {
      std::vector<std::size_t> sizes;
      for (std::size_t i = 2; i < words.size(); ++i) sizes.push_back(number_in(words, i));
      const std::string& kind = words.at(1);
      if (sizes.size() != (kind == "rows" ? 1u : kind == "images" ? 3u : 2u))
        throw NoProgram{"an input of other sizes"};
      model.input = shape = Shape(sizes);
      if (kind == "tokens") {  // the number of tokens, and of ids in a row
        model.tokens = sizes[0];
        model.input = Shape{sizes[1]};
        model.layers.add("embedding", nn::Embedding(scope / "embedding", sizes[0], 6, 0.5f));
        shape = Shape{sizes[1], 6};
      } else if (kind == "images") {
        model.layers.add("first", nn::Conv2d(scope / "first", shape[0], shape[0], 1));
      } else {
        model.layers.add(
            "first", nn::Linear(scope / "first", shape.columns(), shape.columns(), {.edge = true}));
      }
      to_type(true);
    } else if (words[0] == "layer" && words.size() > 1) {
      if (shape.rank() == 0) throw NoProgram{"no input"};
      add_layer(scope, words, "l" + std::to_string(number++), model, shape);
    } else if (words[0] == "head") {
      if (shape.rank() == 0) throw NoProgram{"no input"};
      model.classes = number_in(words, 1);
      if (shape.rank() > 1) {
        model.layers.add("flatten", nn::Flatten());
        shape = Shape{shape.elements()};
      }
      model.layers.add("head", nn::Linear(scope / "head", shape[0], model.classes, {.edge = true}));
      to_type(false);
      return model;
    }
  }
  throw NoProgram{"no head"};
}

inline std::unique_ptr<soma::optim::Optimizer> optimizer_of(const std::string& name,
                                                            soma::Context& context,
                                                            const soma::Parameters& parameters) {
  using namespace soma::optim;
  if (name == "sgd") return std::make_unique<Sgd>(context, parameters);
  if (name == "lamb")
    return std::make_unique<Lamb>(context, std::vector<Group>{Group{.parameters = parameters}});
  if (name == "adafactor") return std::make_unique<Adafactor>(context, parameters);
  if (name == "rmsprop") return std::make_unique<RmsProp>(context, parameters);
  if (name == "adagrad") return std::make_unique<Adagrad>(context, parameters);
  if (name == "adam") return std::make_unique<Adam>(context, parameters);
  return std::make_unique<AdamW>(context, parameters);
}

// `count` inputs that differ, and a class of each.
inline soma::Tensor inputs_of(soma::Context& context, const RandomModel& model, std::size_t count) {
  std::vector<std::size_t> sizes(model.input.begin(), model.input.end());
  sizes.insert(sizes.begin(), count);
  const soma::Shape shape(sizes);
  if (model.tokens != 0) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < shape.elements(); ++i)
      ids.push_back(static_cast<std::int32_t>((i * 2654435761u >> 5) % model.tokens));
    return soma::Tensor::from(context, ids, shape);
  }
  return soma::nn::uniform(context, shape, 1, {.seed = 4, .stream = 9});
}
inline soma::Tensor classes_of(soma::Context& context, const RandomModel& model,
                               std::size_t count) {
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < count; ++i)
    labels.push_back(static_cast<std::int64_t>((i * 2654435761u >> 7) % model.classes));
  return soma::Tensor::from(context, labels, soma::Shape{count});
}

// Lines of a model, drawn.
inline Lines random_layers(soma::DrawSequence& draws) {
  const auto chance = [&](std::uint32_t percent) { return draws.below(100) < percent; };
  const auto size = [&] {
    constexpr std::uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16};
    return " " + std::to_string(sizes[draws.below(8)]);
  };
  Lines lines;
  const std::uint32_t kind = draws.below(4);  // rows, sequence, images, tokens
  if (kind == 0) lines.push_back("input rows" + size());
  if (kind == 1) lines.push_back("input sequence" + size() + size());
  if (kind == 2)
    lines.push_back("input images " + std::to_string(1 + draws.below(3)) + size() + size());
  if (kind == 3) lines.push_back("input tokens 11" + size());
  bool plane = kind == 2, time = kind == 1 || kind == 3;
  for (std::uint32_t i = 1 + draws.below(4); i-- > 0;) {
    if (chance(15)) lines.push_back("layer dropout");
    if (chance(10)) lines.push_back("layer nothing");
    if (chance(25)) {
      constexpr const char* uses[] = {"frozen", "shared", "unused", "broadcast"};
      lines.push_back(std::string("layer ") + uses[plane ? 3 : draws.below(4)]);
    }
    if (plane) {
      const std::uint32_t which = draws.below(7);
      if (which == 0) lines.push_back("layer batch_norm");
      if (which == 1) lines.push_back("layer relu");
      if (which == 2) lines.push_back("layer average");
      if (which > 2 && which < 5) lines.push_back("layer conv " + std::to_string(1 + which));
      if (which == 5) lines.push_back("layer flatten");
      if (which == 6) lines.push_back("layer mean");
      plane = which < 5;
    } else if (time) {
      constexpr const char* layers[] = {"gru",         "lstm",
                                        "linear",      "norm",
                                        "along_time",  "turn",
                                        "tanh",        "mean",
                                        "flatten",     "max_time",
                                        "residual",    "product",
                                        "time_first",  "mean_time_first",
                                        "softmax_time"};
      const std::string which = layers[draws.below(15)];
      const bool wide = which == "gru" || which == "lstm" || which == "linear" ||
                        which == "along_time" || which == "product" || which == "time_first";
      lines.push_back("layer " + which + (wide ? size() : ""));
      time = !which.starts_with("mean") && which != "flatten" && which != "max_time";
    } else {
      constexpr const char* layers[] = {"linear",   "norm",   "rms",     "tanh",       "relu",
                                        "residual", "linear", "product", "drop_number"};
      const std::string which = layers[draws.below(9)];
      lines.push_back("layer " + which + (which == "linear" || which == "product" ? size() : ""));
    }
  }
  lines.push_back("head " + std::to_string(2 + draws.below(3)));
  return lines;
}

}  // namespace soma_test
