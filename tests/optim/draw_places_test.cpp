// Where the elements of a vector draw, which are rows of one column, by each mapping of draws.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::bits;

TEST_CASE("a vector draws as one row in the second mapping, by rows in the first",
          "[unit][optim]") {
  auto context = make_context();
  constexpr std::size_t count = 3000;
  for (const DrawMapping mapping :
       {DrawMapping::automatic, DrawMapping::philox, DrawMapping::ars}) {
    INFO(std::string(to_string(mapping)));
    const Rounding rounding{.mode = RoundingMode::stochastic, .draws = mapping};
    const Tensor gradient = Tensor::full(context, Shape{count}, -0x1p-8f);
    const auto step = [&](bool sparse, const std::vector<std::size_t>& borders) {
      Tape tape(context);
      const Var w = Var::parameter(
          context, cast(tape, tape.constant(Tensor::full(context, Shape{count}, 1.0f)), DType::bf16)
                       .value());
      const Parameters parameters{{"bias", w}};
      const optim::SgdOptions options{.storage = {.weight_rounding = rounding, .seed = 12}};
      for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
        optim::Sgd sgd(context, parameters, options);
        const std::size_t begin = borders[i], end = borders[i + 1];
        if (begin != 0 || end != count)
          sgd.keep_rows([=](const Parameter&) { return std::pair(begin, end); });
        Gradient own{gradient.slice(0, begin, end), {}};
        own.first_row = begin;
        if (sparse) {
          std::vector<std::int64_t> rows(end - begin);
          for (std::size_t row = 0; row < rows.size(); ++row)
            rows[row] = static_cast<std::int64_t>(row);
          own.rows = Tensor::from(context, std::span<const std::int64_t>(rows), Shape{rows.size()});
        }
        w.set_gradient(own);
        sgd.step({.rate = 1});
      }
      return bits(context, w.value());
    };
    std::vector<std::byte> wanted;
    for (std::size_t i = 0; i < count; ++i) {
      const bool by_row = mapping == DrawMapping::philox;
      const Draw draw{.seed = 12,
                      .stream = stream_id("bias", "optimizer"),
                      .index = by_row ? parameter_index(i, 0) : parameter_index(0, i)};
      const std::uint32_t word =
          rounding_word(draw, 16, 0, by_row ? DrawMapping::philox : DrawMapping::ars);
      const std::uint32_t code = encode(formats::bf16, 1 + 0x1p-8f, Rounding::stochastic, word);
      wanted.push_back(static_cast<std::byte>(code));
      wanted.push_back(static_cast<std::byte>(code >> 8));
    }
    for (const bool sparse : {false, true}) {
      CHECK(step(sparse, {0, count}) == wanted);
      CHECK(step(sparse, {0, 1003, count}) == wanted);
    }
  }
}

TEST_CASE("a vector draws as one row with every optimizer", "[unit][optim]") {
  // All elements alike become one number, which lies between two neighbours: the one farther from
  // zero is taken from some half-word on.
  auto context = make_context();
  constexpr std::size_t count = 5000;
  const auto check = [&](const char* name, const auto& step) {
    INFO(name);
    Tape tape(context);
    const Var w = Var::parameter(
        context,
        cast(tape, tape.constant(Tensor::full(context, Shape{count}, 1.0f)), DType::bf16).value());
    w.set_gradient({Tensor::full(context, Shape{count}, 0.5f), {}});
    step(Parameters{{"bias", w}});
    std::uint16_t near = 0xFFFF, far = 0, last_near = 0, first_far = 0xFFFF;
    const auto element = [&](std::size_t i) {
      std::uint16_t code;
      std::memcpy(&code, w.value().raw() + 2 * i, sizeof code);
      return code;
    };
    for (std::size_t i = 0; i < count; ++i) {
      near = (std::min)(near, element(i));
      far = (std::max)(far, element(i));
    }
    CHECK(far == near + 1);
    for (std::size_t i = 0; i < count; ++i) {
      const Draw draw{
          .seed = 12, .stream = stream_id("bias", "optimizer"), .index = parameter_index(0, i)};
      const std::uint16_t word = random_half_word(draw, 0, DrawMapping::ars);
      if (element(i) == near)
        last_near = (std::max)(last_near, word);
      else
        first_far = (std::min)(first_far, word);
    }
    CHECK(last_near < first_far);
  };
  const optim::StepStorage storage{.weight_rounding = Rounding::stochastic, .seed = 12};
  check("adamw", [&](const Parameters& parameters) {
    optim::AdamW(context, parameters, 0.0f, {.storage = storage}).step({.rate = 1e-3});
  });
  check("adam", [&](const Parameters& parameters) {
    optim::Adam(context, parameters, 0.0f, {.storage = storage}).step({.rate = 1e-3});
  });
  check("lamb", [&](const Parameters& parameters) {
    optim::Lamb(context, {{.parameters = parameters}}, {.storage = storage}).step({.rate = 1e-3});
  });
  check("rmsprop", [&](const Parameters& parameters) {
    optim::RmsProp(context, parameters, {.storage = storage}).step({.rate = 1e-4});
  });
  check("adagrad", [&](const Parameters& parameters) {
    optim::Adagrad(context, parameters, {.storage = storage}).step({.rate = 1e-3});
  });
  check("adafactor", [&](const Parameters& parameters) {
    optim::Adafactor(context, parameters, {.weight_rounding = Rounding::stochastic, .seed = 12})
        .step({.rate = 1e-3});
  });
}
