// Optimizers over twenty steps beside the plain formulas in double.

#include <soma/kernels/reference/optimizer.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::random_parameter;
using soma_test::values;

namespace {

constexpr int steps = 20;
constexpr double unit = 0x1p-24;

// Random elements with a magnitude of 1/4 to 1 and either sign, different in every step.
Tensor gradient(Context& context, const Shape& shape, int step) {
  const Tensor tensor = soma_test::random_tensor(context, shape, "g" + std::to_string(step));
  for (float& g : tensor.mutable_span<float>()) g = g < 0 ? -0.25f + 0.75f * g : 0.25f + 0.75f * g;
  return tensor;
}

struct Element {
  double w, first = 0, second = 0;
};

// Runs both; the weights may differ by `roundings` units of each step's change (at most `change`)
// and by two units of the weight itself (below 2) in each step, all of which can add up.
template <class Optimizer, class Plain>
void check_trajectory(Context& context, const std::vector<optim::Group>& groups,
                      Optimizer& optimizer, const Plain& plain, double rate, double change,
                      double roundings, float factor = 1) {
  std::vector<std::vector<Element>> elements;
  std::vector<std::pair<Var, const optim::Group*>> all;
  for (const optim::Group& group : groups)
    for (const Parameter& parameter : group.parameters) {
      all.emplace_back(parameter.var, &group);
      elements.emplace_back();
      for (const float w : values(context, parameter.value()))
        elements.back().push_back({.w = static_cast<double>(w)});
    }
  for (int step = 1; step <= steps; ++step) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& [var, group] = all[i];
      const Tensor g = gradient(context, var.shape(), step + 100 * static_cast<int>(i));
      var.set_gradient({g, {}});
      std::vector<double> used;
      for (const float value : values(context, g))
        used.push_back(static_cast<double>(value) * static_cast<double>(factor));
      plain(elements[i], used, *group, rate * static_cast<double>(group->rate_factor), step);
    }
    optimizer.step({.rate = rate, .gradient_factor = factor});
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto given = values(context, all[i].first.value());
      double worst = 0;
      for (std::size_t j = 0; j < given.size(); ++j)
        worst = std::max(worst, std::fabs(static_cast<double>(given[j]) - elements[i][j].w));
      INFO("step " << step << " parameter " << i);
      CHECK(worst <= step * unit * (2 * 2 + roundings * change));
    }
  }
}

std::vector<optim::Group> two_groups(Context& context) {
  return {
      {.parameters = {{"a", random_parameter(context, Shape{7, 9}, "a")},
                      {"b", random_parameter(context, Shape{33}, "b")}},
       .weight_decay = 0.05f},
      {.parameters = {{"c", random_parameter(context, Shape{2, 3, 4}, "c")}}, .rate_factor = 0.5f}};
}

}  // namespace

TEST_CASE("SGD follows its formula", "[unit][optim]") {
  struct Case {
    float momentum, dampening;
    bool nesterov;
  };
  for (const Case& c :
       {Case{0, 0, false}, Case{0.9f, 0, false}, Case{0.9f, 0.25f, false}, Case{0.5f, 0, true}}) {
    INFO(c.momentum << ' ' << c.dampening << ' ' << c.nesterov);
    auto context = make_context();
    const auto groups = two_groups(context);
    optim::Sgd sgd(context, groups,
                   {.momentum = c.momentum, .dampening = c.dampening, .nesterov = c.nesterov});
    const auto plain = [&](std::vector<Element>& elements, const std::vector<double>& g,
                           const optim::Group& group, double rate, int step) {
      const reference::Sgd<double> formula{rate, static_cast<double>(c.momentum),
                                           static_cast<double>(c.dampening),
                                           static_cast<double>(group.weight_decay), c.nesterov};
      for (std::size_t i = 0; i < elements.size(); ++i)
        formula.step(elements[i].w, elements[i].first, g[i], step == 1);
    };
    // A change is below rate * 1.1 / (1 - momentum), nesterov's somewhat more; it is a sum of up to
    // twenty terms, each rounded a few times.
    const double change = 0.05 * 1.1 / (1 - static_cast<double>(c.momentum)) * 2;
    check_trajectory(context, groups, sgd, plain, 0.05, change, 4 * steps, 0.5f);
  }
}

TEST_CASE("AdamW follows its formula", "[unit][optim]") {
  for (const double beta2 : {0.999, 0.98}) {
    auto context = make_context();
    const auto groups = two_groups(context);
    optim::AdamW adamw(context, groups, {.beta1 = 0.85, .beta2 = beta2, .epsilon = 1e-6});
    const auto plain = [&](std::vector<Element>& elements, const std::vector<double>& g,
                           const optim::Group& group, double rate, int step) {
      const reference::Adam<double> formula{rate, 0.85, beta2, 1e-6,
                                            static_cast<double>(group.weight_decay)};
      for (std::size_t i = 0; i < elements.size(); ++i)
        formula.step(elements[i].w, elements[i].first, elements[i].second, g[i], step);
    };
    // |m| / sqrt(v) is at most 4 for such gradients (after the corrections); moments are sums of up
    // to twenty rounded terms, and 1 - beta2 is known to a unit.
    check_trajectory(context, groups, adamw, plain, 0.01, 0.01 * 4, 4 * steps, 2);
  }
}

TEST_CASE("LAMB follows its formula", "[unit][optim]") {
  auto context = make_context();
  const auto groups = two_groups(context);
  optim::Lamb lamb(context, groups, {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6});
  const auto plain = [&](std::vector<Element>& elements, const std::vector<double>& g,
                         const optim::Group& group, double rate, int step) {
    const reference::Adam<double> formula{rate, 0.9, 0.99, 1e-6,
                                          static_cast<double>(group.weight_decay)};
    std::vector<double> updates;
    double weights = 0, squares = 0;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      Element& e = elements[i];
      updates.push_back(formula.lamb_update(e.w, e.first, e.second, g[i], step));
      weights += e.w * e.w;
      squares += updates.back() * updates.back();
    }
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i].w -= rate * std::sqrt(weights / squares) * updates[i];
  };
  // Weights and directions are of like size, so the ratio is below 2.
  check_trajectory(context, groups, lamb, plain, 0.01, 0.01 * 4 * 2, 4 * steps);
}

TEST_CASE("LAMB's ratio is 1 where a norm is zero", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const Var w = Var::parameter(context, Tensor::zeros(context, Shape{5}));
  optim::Lamb lamb(context, {{.parameters = {{"w", w}}}});
  w.set_gradient({Tensor::full(context, Shape{5}, 0.5f), {}});
  lamb.step({.rate = 0.25});
  // The first direction is 1 / (1 + epsilon / g).
  for (const float x : values(context, w.value())) CHECK(std::fabs(x + 0.25f) < 1e-5f);
  w.set_gradient({Tensor::zeros(context, Shape{5}), {}});
  const Var z = Var::parameter(context, Tensor::full(context, Shape{5}, 2.0f));
  optim::Lamb still(context, {{.parameters = {{"z", z}}}});
  z.set_gradient({Tensor::zeros(context, Shape{5}), {}});
  still.step({.rate = 0.25});
  CHECK(values(context, z.value()) == std::vector<float>(5, 2));
}

TEST_CASE("parameters without a gradient are left alone, and count no steps", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const Var a = random_parameter(context, Shape{4}, "a"),
            b = random_parameter(context, Shape{4}, "b");
  const auto before = bits(context, b.value());
  const std::size_t heap = context.heap().bytes_in_use();
  optim::AdamW adamw(context, Parameters{{"a", a}, {"b", b}}, 0.5f);
  CHECK(context.heap().bytes_in_use() == heap);  // states come with the first gradient
  a.set_gradient({gradient(context, Shape{4}, 1), {}});
  for (int i = 0; i < 3; ++i) adamw.step({.rate = 0.1});
  CHECK(bits(context, b.value()) == before);
  CHECK(a.gradient().defined());  // gradients stay
  // b's first step is a first step, with full bias correction.
  b.set_gradient({gradient(context, Shape{4}, 1), {}});
  a.clear_gradient();
  adamw.step({.rate = 0.1});
  const Var fresh = random_parameter(context, Shape{4}, "b");
  fresh.set_gradient(b.gradient());
  optim::AdamW(context, Parameters{{"b", fresh}}, 0.5f).step({.rate = 0.1});
  CHECK(bits(context, fresh.value()) == bits(context, b.value()));
}

TEST_CASE("slices of one variable are stepped like parameters of their own", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const Var whole = random_parameter(context, Shape{6, 5}, "w");
  const Tensor g = gradient(context, Shape{6, 5}, 1);
  whole.set_gradient({g, {}});
  const Var top = Var::parameter(context, clone(context, whole.value().slice(0, 0, 2)));
  const Var rest = Var::parameter(context, clone(context, whole.value().slice(0, 2)));
  top.set_gradient({clone(context, g.slice(0, 0, 2)), {}});
  rest.set_gradient({clone(context, g.slice(0, 2)), {}});
  optim::Lamb of_slices(context,
                        {{.parameters = {{"top", whole, 0, 2}, {"rest", whole, 2, to_end}}}});
  optim::Lamb of_own(context, {{.parameters = {{"top", top}, {"rest", rest}}}});
  for (int i = 0; i < 3; ++i) {
    of_slices.step({.rate = 0.1});
    of_own.step({.rate = 0.1});
  }
  CHECK(bits(context, whole.value().slice(0, 0, 2)) == bits(context, top.value()));
  CHECK(bits(context, whole.value().slice(0, 2)) == bits(context, rest.value()));
}

TEST_CASE("biases and norms are exempt from weight decay", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const models::BertClassifier model(
      nn::Scope{context},
      {.vocabulary = 5, .width = 4, .layers = 1, .heads = 1, .inner = 4, .positions = 4}, 2);
  const auto groups = optim::decay_groups(nn::parameters(model), 0.01f);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].weight_decay == 0.01f);
  CHECK(groups[1].weight_decay == 0);
  std::vector<std::string> decayed;
  for (const Parameter& parameter : groups[0].parameters) decayed.push_back(parameter.name);
  CHECK(decayed == std::vector<std::string>{"bert.embeddings.word_embeddings.weight",
                                            "bert.embeddings.position_embeddings.weight",
                                            "bert.embeddings.token_type_embeddings.weight",
                                            "bert.encoder.layer.0.attention.self.query.weight",
                                            "bert.encoder.layer.0.attention.self.key.weight",
                                            "bert.encoder.layer.0.attention.self.value.weight",
                                            "bert.encoder.layer.0.attention.output.dense.weight",
                                            "bert.encoder.layer.0.intermediate.dense.weight",
                                            "bert.encoder.layer.0.output.dense.weight",
                                            "bert.pooler.dense.weight", "classifier.weight"});
  CHECK(groups[0].parameters.size() + groups[1].parameters.size() == nn::parameters(model).size());
  // A parameter's role decides, not its name; without a role, its rank decides.
  const Var vector = random_parameter(context, Shape{3}, "v");
  const Var matrix = random_parameter(context, Shape{3, 3}, "m");
  const Parameters named{{.name = "ln_f.weight", .var = vector, .role = ParameterRole::scale},
                         {.name = "normalizer_proj.weight", .var = matrix},
                         {.name = "bias_table", .var = matrix, .role = ParameterRole::weight},
                         {.name = "gains", .var = vector},
                         {.name = "kernel", .var = vector, .role = ParameterRole::weight},
                         {.name = "offsets", .var = matrix, .role = ParameterRole::bias}};
  const auto names = [](const optim::Group& group) {
    std::string all;
    for (const Parameter& parameter : group.parameters) all += parameter.name + ' ';
    return all;
  };
  CHECK(names(optim::decay_groups(named, 1)[0]) == "normalizer_proj.weight bias_table kernel ");
  CHECK(names(optim::decay_groups(named, 1)[1]) == "ln_f.weight gains offsets ");
  const auto own = [](const Parameter& parameter) { return parameter.name == "gains"; };
  CHECK(names(optim::decay_groups(named, 1, own)[0]) == "gains ");
}

TEST_CASE("wrong inputs of optimizer steps are refused", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const BuiltInOperators& built_in = context.built_in();
  const Tensor w = Tensor::zeros(context, Shape{3, 2}), four = Tensor::zeros(context, Shape{4, 2});
  const auto id = [&](const Operator& op, const Attributes& setting,
                      std::initializer_list<Tensor> inputs) {
    return soma_test::id_of([&] { run(context, op, setting, inputs); });
  };
  const SgdSetting plain{.rate = 1}, momentum{.rate = 1, .momentum = 0.5f};
  CHECK(id(*built_in.sgd_step, plain, {w, w}) == "no error");
  CHECK(id(*built_in.sgd_step, momentum, {w, w}) == "operator.inputs");
  CHECK(id(*built_in.sgd_step, momentum, {w, w, Tensor(), Tensor()}) == "operator.inputs");
  CHECK(id(*built_in.sgd_step, momentum, {w, w, Tensor(), four}) == "tensor.shape");
  CHECK(id(*built_in.sgd_step, plain, {w, four}) == "tensor.shape");
  CHECK(id(*built_in.adam_step, AdamSetting{}, {w, w}) == "operator.inputs");
  CHECK(id(*built_in.lamb_step, LambSetting{}, {w, w, Tensor(), w}) == "operator.inputs");
  const Tensor rows = Tensor::from<std::int64_t>(context, {0, 2}, Shape{2});
  CHECK(id(*built_in.sgd_step, plain, {w, w, rows}) == "tensor.shape");
  CHECK(id(*built_in.sgd_step, plain, {w, Tensor::zeros(context, Shape{2, 2}), rows}) ==
        "no error");
  const Tensor outside = Tensor::from<std::int64_t>(context, {0, 3}, Shape{2});
  CHECK(id(*built_in.sgd_step, plain, {w, Tensor::zeros(context, Shape{2, 2}), outside}) ==
        "operator.value");
  for (const std::int64_t second : {0, 1}) {
    const Tensor disorder = Tensor::from<std::int64_t>(context, {1, second}, Shape{2});
    CHECK(id(*built_in.sgd_step, plain, {w, Tensor::zeros(context, Shape{2, 2}), disorder}) ==
          "operator.value");
  }
  const auto adam_marked = [&](const Tensor& live) {
    return id(*built_in.adam_step, AdamSetting{}, {w, w, Tensor(), w, w, live});
  };
  CHECK(adam_marked(Tensor::zeros(context, Shape{3}, DType::uint8)) == "no error");
  CHECK(adam_marked(Tensor::zeros(context, Shape{2}, DType::uint8)) == "tensor.shape");
  CHECK(adam_marked(Tensor::zeros(context, Shape{3})) == "tensor.dtype");
  CHECK(id(*built_in.sgd_step, plain, {w.transpose(0, 1), w.transpose(0, 1)}) ==
        "tensor.not_contiguous");
}

TEST_CASE("with the smallest epsilon, gradients of any size step by the rate", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  for (const float size : {1.0f, 1e-10f, 1e-18f, 1e-20f}) {
    const Var w = Var::parameter(context, Tensor::zeros(context, Shape{1}));
    w.set_gradient({Tensor::full(context, Shape{1}, size), {}});
    optim::AdamW(context, {{"w", w}}, 0, {.epsilon = 0x1p-149}).step({.rate = 0.01});
    // The square of the last is 71 units of 2^-149, times 1 - beta2.
    CHECK(std::abs(static_cast<double>(w.value().item<float>()) + 0.01) < 0.01 * 0.01);
  }
}
