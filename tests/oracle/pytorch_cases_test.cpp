// Functions, losses, layers and optimizers beside PyTorch's in float64 (pytorch_cases.json, by
// pytorch_cases.py).

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using nlohmann::json;

namespace {

const json& figures() {
  static const json all = json::parse(
      std::ifstream(std::filesystem::path(__FILE__).parent_path() / "pytorch_cases.json"));
  return all;
}

Shape shape_of(const json& tensor) {
  return Shape(std::span<const std::size_t>(tensor["shape"].get<std::vector<std::size_t>>()));
}
Tensor fp32(Context& context, const json& tensor) {
  return Tensor::from(context, tensor["values"].get<std::vector<float>>(), shape_of(tensor));
}

// Numbers of PyTorch's, within so many roundings of the largest of them (at least 1).
void check_close(Context& context, const Tensor& given, const json& wanted, double roundings) {
  const auto numbers = wanted["values"].get<std::vector<double>>();
  REQUIRE(to_string(given.shape()) == to_string(shape_of(wanted)));
  double largest = 1, worst = 0;
  for (const double number : numbers) largest = std::max(largest, std::fabs(number));
  std::vector<double> values;
  if (given.dtype() == DType::int64)
    for (const std::int64_t value : contiguous(context, given).span<std::int64_t>())
      values.push_back(static_cast<double>(value));
  else
    for (const float value : soma_test::values(context, given))
      values.push_back(static_cast<double>(value));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    worst = std::max(worst, std::isnan(values[i]) ? HUGE_VAL : std::fabs(values[i] - numbers[i]));
  CHECK(worst <= roundings * 0x1p-24 * largest);
}

using Arguments = std::vector<Var>;
using Results = std::vector<Var>;
using Function = std::function<Results(Tape&, const Arguments&)>;

Var whole(Tape& tape, const Var& numbers, DType dtype) {
  std::vector<std::int64_t> values;
  for (const float value : numbers.value().span<float>())
    values.push_back(static_cast<std::int64_t>(value));
  if (dtype == DType::int64)
    return tape.constant(Tensor::from(tape.context(), values, numbers.shape()));
  const std::vector<std::uint8_t> bytes(values.begin(), values.end());
  return tape.constant(Tensor::from(tape.context(), bytes, numbers.shape()));
}

Function batch_norm() {
  return [](Tape& tape, const Arguments& in) -> Results {
    nn::BatchNorm layer(nn::Scope{tape.context()}, in[1].shape()[0]);
    layer.weight = in[1];
    layer.bias = in[2];
    const Var y = layer(tape, in[0]);
    return {y, layer.running_mean, layer.running_var};
  };
}

// PyTorch's parameters stand behind x, the first states of a cell behind them.
void set_weights(nn::detail::RecurrentWeights& own, const Arguments& in) {
  own.input_weight = in[1];
  own.hidden_weight = in[2];
  own.input_bias = in[3];
  own.hidden_bias = in[4];
}

Function rnn_layer(bool relu) {
  return [relu](Tape& tape, const Arguments& in) -> Results {
    nn::Rnn layer(nn::Scope{tape.context()}, 3, 4, {}, relu);
    set_weights(layer.layers[0], in);
    return {layer(tape, in[0]).rows};
  };
}

template <class Cell>
Function cell() {
  return [](Tape& tape, const Arguments& in) -> Results {
    Cell layer(nn::Scope{tape.context()}, 3, 4);
    set_weights(layer.weights, in);
    const nn::CellState now = layer(tape, in[0], {in[5], in.size() > 6 ? in[6] : Var()});
    return now.cell.defined() ? Results{now.state, now.cell} : Results{now.state};
  };
}

Function convolution(const ConvolutionSetting& setting) {
  return [setting](Tape& tape, const Arguments& in) -> Results {
    return {conv2d(tape, in[0], in[1], in[2], setting)};
  };
}

void more_layers(std::map<std::string, Function>& all) {
  all["conv2d dilated"] =
      convolution({.pad_height = 2, .pad_width = 3, .dilation_height = 2, .dilation_width = 3});
  all["conv2d padding"] = convolution({.pad_height = 3, .pad_width = 2});
  all["conv2d groups"] =
      convolution({.stride_height = 2, .pad_height = 1, .pad_width = 1, .groups = 2});
  all["conv2d depthwise"] = convolution(
      {.stride_height = 2, .stride_width = 2, .pad_height = 1, .pad_width = 1, .groups = 4});
  all["conv1d causal"] = [](Tape& t, const Arguments& in) -> Results {
    nn::Conv1d layer(nn::Scope{t.context()}, 4, 6, 3, {.dilation = 2, .groups = 2, .causal = true});
    layer.weight = in[1];
    layer.bias = in[2];
    return {layer(t, in[0])};
  };
  all["conv_transpose2d groups"] = [](Tape& t, const Arguments& in) -> Results {
    return {conv_transpose2d(t, in[0], in[1], in[2],
                             {{.stride_height = 2,
                               .stride_width = 2,
                               .pad_height = 1,
                               .pad_width = 1,
                               .dilation_height = 2,
                               .dilation_width = 3,
                               .groups = 2},
                              1,
                              1})};
  };
  all["conv_transpose1d"] = [](Tape& t, const Arguments& in) -> Results {
    nn::ConvTranspose1d layer(nn::Scope{t.context()}, 3, 4, 3, {.stride = 2, .pad = 1, .extra = 1});
    layer.weight = in[1];
    layer.bias = in[2];
    return {layer(t, in[0])};
  };
  all["adaptive_max_pool"] = [](Tape& t, const Arguments& in) -> Results {
    return {nn::AdaptiveMaxPool2d(3, 4)(t, in[0])};
  };
  all["reflect_pad"] = [](Tape& t, const Arguments& in) -> Results {
    return {reflect_pad(t, in[0], {{1, 4}, {3, 2}})};
  };
  all["vector_norm 1"] = [](Tape& t, const Arguments& in) -> Results {
    return {vector_norm(t, in[0], 1)};
  };
  all["instance_norm"] = [](Tape& t, const Arguments& in) -> Results {
    nn::InstanceNorm layer(nn::Scope{t.context()}, 3, {.affine = true});
    layer.weight = in[1];
    layer.bias = in[2];
    return {layer(t, in[0])};
  };
  all["weight_norm"] = [](Tape& t, const Arguments& in) -> Results {
    const nn::Scope scope{t.context()};
    nn::WeightNorm layer(scope, nn::Conv1d(scope, 3, 4, 3, {.pad = 1}));
    layer.weight_v = in[1];
    layer.weight_g = in[2];
    layer.layer.bias = in[3];
    return {layer(t, in[0])};
  };
  all["embedding padding"] = [](Tape& t, const Arguments& in) -> Results {
    return {embedding(t, in[0], whole(t, in[1], DType::int64), {.padding = 1})};
  };
  all["rnn tanh"] = rnn_layer(false);
  all["rnn relu"] = rnn_layer(true);
  all["rnn cell"] = cell<nn::RnnCell>();
  all["gru cell"] = cell<nn::GruCell>();
  all["lstm cell"] = cell<nn::LstmCell>();
  for (const LossReduction how : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
    const std::string name = how == LossReduction::mean  ? "ctc mean"
                             : how == LossReduction::sum ? "ctc sum"
                                                         : "ctc none";
    all[name] = [how](Tape& t, const Arguments& in) -> Results {
      const std::size_t rows[] = {9, 5, 7}, labels[] = {3, 0, 4};
      const std::int64_t ids[] = {2, 2, 1, 4, 1, 1, 3};
      const Var x =
          t.with_sequences(log_softmax(t, in[0]), Sequences::from_lengths(t.context(), rows));
      const Var own = t.constant(Tensor::from(t.context(), std::span(ids), Shape{7}),
                                 Sequences::from_lengths(t.context(), labels));
      return {ctc_loss(t, x, own, {.reduction = how})};
    };
  }
}

std::map<std::string, Function> functions() {
  std::map<std::string, Function> all;
  const auto one = [&](const std::string& name, auto function) {
    all[name] = [function](Tape& tape, const Arguments& in) -> Results {
      return {function(tape, in[0])};
    };
  };
  one("elu", elu);
  one("hard_sigmoid", hard_sigmoid);
  one("hard_swish", hard_swish);
  one("hard_tanh", hard_tanh);
  one("leaky_relu", [](Tape& t, const Var& x) { return leaky_relu(t, x, 0.25f); });
  one("clamp", [](Tape& t, const Var& x) { return soma::clamp(t, x, -1.25f, 2.5f); });
  one("pow 3", [](Tape& t, const Var& x) { return soma::pow(t, x, 3); });
  one("pow 1.5", [](Tape& t, const Var& x) { return soma::pow(t, x, 1.5f); });
  one("pow -2", [](Tape& t, const Var& x) { return soma::pow(t, x, -2); });
  one("softmax 0", [](Tape& t, const Var& x) { return softmax(t, x, 0); });
  one("log_softmax 0", [](Tape& t, const Var& x) { return log_softmax(t, x, 0); });
  one("pad", [](Tape& t, const Var& x) { return pad(t, x, {{0, 3}, {1, 2}}, 0.5f); });
  one("average_pool", [](Tape& t, const Var& x) {
    return average_pool2d(t, x, {2, 3, {2, 2, 1, 1}, true, 0, 0});
  });
  one("average_pool own pixels", [](Tape& t, const Var& x) {
    return average_pool2d(t, x, {3, 3, {2, 2, 1, 1}, false, 0, 0});
  });
  one("adaptive_average_pool",
      [](Tape& t, const Var& x) { return adaptive_average_pool2d(t, x, 3, 4); });

  const auto extremes = [](const Extremes& found) -> Results {
    return {found.values, found.indices};
  };
  all["max 1"] = [=](Tape& t, const Arguments& in) { return extremes(soma::max(t, in[0], 1)); };
  all["min 0"] = [=](Tape& t, const Arguments& in) { return extremes(soma::min(t, in[0], 0)); };
  all["top_k 2 of 3"] = [=](Tape& t, const Arguments& in) {
    return extremes(top_k(t, in[0], 3, 2));
  };
  all["gather 1"] = [](Tape& t, const Arguments& in) -> Results {
    return {gather(t, in[0], 1, whole(t, in[1], DType::int64))};
  };
  all["index_select 1"] = [](Tape& t, const Arguments& in) -> Results {
    return {index_select(t, in[0], 1, whole(t, in[1], DType::int64))};
  };
  all["where"] = [](Tape& t, const Arguments& in) -> Results {
    return {where(t, whole(t, in[2], DType::uint8), in[0], in[1])};
  };
  all["sort 1"] = [=](Tape& t, const Arguments& in) { return extremes(soma::sort(t, in[0], 1)); };
  all["sort 2 descending"] = [=](Tape& t, const Arguments& in) {
    return extremes(soma::sort(t, in[0], 2, true));
  };
  one("cumsum 1", [](Tape& t, const Var& x) { return cumsum(t, x, 1); });
  all["scatter_add 1"] = [](Tape& t, const Arguments& in) -> Results {
    return {scatter_add(t, in[0], 1, whole(t, in[2], DType::int64), in[1])};
  };
  one("normalise 1", [](Tape& t, const Var& x) { return normalise(t, x, 1); });
  all["cosine_similarity 1"] = [](Tape& t, const Arguments& in) -> Results {
    return {cosine_similarity(t, in[0], in[1], 1)};
  };
  one("glu 1", [](Tape& t, const Var& x) { return nn::Glu(1)(t, x); });
  all["prelu"] = [](Tape& t, const Arguments& in) -> Results {
    nn::Prelu layer(nn::Scope{t.context()}, 4);
    layer.weight = in[1];
    return {layer(t, in[0])};
  };
  one("pixel_shuffle", [](Tape& t, const Var& x) { return nn::PixelShuffle(2)(t, x); });
  one("nearest", [](Tape& t, const Var& x) { return resize(t, x, {.height = 7, .width = 3}); });
  one("bilinear", [](Tape& t, const Var& x) {
    return resize(t, x, {.height = 7, .width = 3, .bilinear = true});
  });
  one("bilinear corners", [](Tape& t, const Var& x) {
    return resize(t, x, {.height = 7, .width = 3, .bilinear = true, .align_corners = true});
  });
  one("max_pool1d", [](Tape& t, const Var& x) {
    return nn::MaxPool1d({.kernel = 3, .stride = 2, .pad = 1})(t, x);
  });
  one("average_pool1d", [](Tape& t, const Var& x) {
    return nn::AveragePool1d({.kernel = 3, .stride = 2, .pad = 1})(t, x);
  });
  all["stack 1"] = [](Tape& t, const Arguments& in) -> Results {
    return {stack(t, {in[0], in[1]}, 1)};
  };

  for (const LossReduction how : {LossReduction::mean, LossReduction::sum}) {
    const std::string end = how == LossReduction::mean ? " mean" : " sum";
    all["l1" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {l1_loss(t, in[0], in[1], how)};
    };
    all["smooth_l1" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {smooth_l1_loss(t, in[0], in[1], 0.5f, how)};
    };
    all["huber" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {huber_loss(t, in[0], in[1], 1.5f, how)};
    };
    all["hinge" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {hinge_loss(t, in[0], in[1], 1, how)};
    };
    all["kl_div" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {kl_div(t, in[0], in[1], how)};
    };
    all["nll" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {
          nll_loss(t, in[0], whole(t, in[1], DType::int64), {.reduction = how, .ignore_index = 2})};
    };
    all["cosine" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {cosine_embedding_loss(t, in[0], in[1], in[2], -0.25f, how)};
    };
  }
  for (const LossReduction how : {LossReduction::mean, LossReduction::sum}) {
    const std::string end = how == LossReduction::mean ? " mean" : " sum";
    all["positives weigh" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {weighted_binary_cross_entropy_with_logits(t, in[0], in[1], in[2], how)};
    };
    all["probabilities" + end] = [how](Tape& t, const Arguments& in) -> Results {
      return {binary_cross_entropy(t, in[0], in[1], how)};
    };
    all["shares" + end] = [how](Tape& t, const Arguments& in) -> Results {
      // PyTorch's mean is over rows.
      return {soft_cross_entropy(t, in[0], in[1], how)};
    };
  }
  all["kl_div batch mean"] = [](Tape& t, const Arguments& in) -> Results {
    return {kl_div_batch_mean(t, in[0], in[1])};
  };

  all["group_norm"] = [](Tape& t, const Arguments& in) -> Results {
    nn::GroupNorm layer(nn::Scope{t.context()}, 2, 4);
    layer.weight = in[1];
    layer.bias = in[2];
    return {layer(t, in[0])};
  };
  all["rms_norm"] = [](Tape& t, const Arguments& in) -> Results {
    nn::RmsNorm layer(nn::Scope{t.context()}, 6);
    layer.weight = in[1];
    return {layer(t, in[0])};
  };
  all["conv1d"] = [](Tape& t, const Arguments& in) -> Results {
    nn::Conv1d layer(nn::Scope{t.context()}, 3, 4, 3, {.stride = 2, .pad = 1});
    layer.weight = in[1];
    layer.bias = in[2];
    return {layer(t, in[0])};
  };
  all["conv_transpose2d"] = [](Tape& t, const Arguments& in) -> Results {
    return {conv_transpose2d(t, in[0], in[1], in[2], {{2, 2, 1, 1}, 1, 1})};
  };
  more_layers(all);
  for (const char* name : {"batch_norm 2d", "batch_norm 1d", "batch_norm 1d of signals"})
    all[name] = batch_norm();
  return all;
}

std::unique_ptr<optim::Optimizer> optimizer(const std::string& name, Context& context,
                                            const std::vector<optim::Group>& groups) {
  if (name == "adam")
    return std::make_unique<optim::Adam>(
        context, groups, optim::AdamWOptions{.beta1 = 0.85, .beta2 = 0.98, .epsilon = 1e-6});
  if (name == "rmsprop" || name == "rmsprop momentum")
    return std::make_unique<optim::RmsProp>(
        context, groups,
        optim::RmsPropOptions{
            .alpha = 0.9, .epsilon = 1e-6, .momentum = name == "rmsprop" ? 0 : 0.5f});
  if (name == "adagrad")
    return std::make_unique<optim::Adagrad>(
        context, groups,
        optim::AdagradOptions{.epsilon = 1e-6, .rate_decay = 0.1, .initial_square = 0.25f});
  if (name == "adadelta")
    return std::make_unique<optim::Adadelta>(context, groups,
                                             optim::AdadeltaOptions{.rho = 0.85, .epsilon = 1e-6});
  if (name == "radam")
    return std::make_unique<optim::RAdam>(
        context, groups, optim::RAdamOptions{.beta1 = 0.85, .beta2 = 0.9, .epsilon = 1e-6});
  if (name == "radam decoupled")
    return std::make_unique<optim::RAdam>(
        context, groups,
        optim::RAdamOptions{.beta1 = 0.85, .beta2 = 0.98, .epsilon = 1e-6, .decoupled = true});
  return std::make_unique<optim::Adafactor>(context, groups);
}

}  // namespace

TEST_CASE("functions, losses and layers have PyTorch's results and gradients", "[unit][oracle]") {
  const std::map<std::string, Function> all = functions();
  std::size_t checked = 0;
  for (const json& entry : figures()["cases"]) {
    const auto name = entry["name"].get<std::string>();
    INFO(name);
    REQUIRE(all.contains(name));
    auto context = make_context({.threads = 2});
    Tape tape(context);
    Arguments inputs;
    const std::size_t variables = entry["gradients"].size();
    for (const json& input : entry["inputs"]) {
      const Tensor value = fp32(context, input);
      inputs.push_back(inputs.size() < variables ? Var::parameter(context, value)
                                                 : tape.constant(value));
    }
    const Results outputs = all.at(name)(tape, inputs);
    // Sums of up to 90 terms of magnitude up to 4, and what they are divided by.
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      INFO("output " << i);
      check_close(context, outputs[i].value(), entry["outputs"][i], 64);
    }
    tape.backward(outputs[0], fp32(context, entry["dy"]));
    for (std::size_t i = 0; i < variables; ++i) {
      INFO("gradient " << i);
      const Gradient gradient = inputs[i].gradient();
      REQUIRE(gradient.defined());
      check_close(context, context.built_in().to_dense(context, gradient, inputs[i].shape()),
                  entry["gradients"][i], 128);
    }
    ++checked;
  }
  CHECK(checked == all.size());
}

TEST_CASE("optimizers take PyTorch's steps", "[unit][oracle]") {
  for (const json& entry : figures()["optimizers"]) {
    const auto name = entry["name"].get<std::string>();
    INFO(name);
    auto context = make_context({.threads = 2});
    const Var matrix = Var::parameter(context, fp32(context, entry["weights"][0]));
    const Var vector = Var::parameter(context, fp32(context, entry["weights"][1]));
    const auto own = optimizer(name, context,
                               {{.parameters = {{"matrix", matrix}}, .weight_decay = 0.125f},
                                {.parameters = {{"vector", vector}}, .rate_factor = 0.5f}});
    for (const json& gradients : entry["gradients"]) {
      matrix.set_gradient({fp32(context, gradients[0]), {}});
      vector.set_gradient({fp32(context, gradients[1]), {}});
      own->step({.rate = 0.05});
    }
    // Six steps, each of some ten roundings of a change below 1 and one of the weight, below 4.
    check_close(context, matrix.value(), entry["after"][0], 6 * 14);
    check_close(context, vector.value(), entry["after"][1], 6 * 14);
  }
}
