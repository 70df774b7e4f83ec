// A batch and its parts, as ranks have them: results of a part are those rows of the whole batch's
// results, and the gradients of the parts add up to the whole batch's, bit by bit. So draws follow
// the rows of the batch wherever they are in a tensor, and sums over them are cut at the shards.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"

#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace soma;

namespace {

constexpr std::size_t T = 5, C = 6;

// Fixed numbers without a pattern, between -1 and 1.
float number(std::size_t i) {
  const auto mixed = static_cast<std::uint32_t>(i * 2654435761u + 12345u) * 1664525u;
  return static_cast<float>(mixed >> 8) / 8388608.0f - 1.0f;
}

Tensor numbers(Context& context, const Shape& shape, std::size_t first = 0) {
  const Tensor made = Tensor::empty(context, shape);
  float* out = made.mutable_data<float>();
  for (std::size_t i = 0; i < made.elements(); ++i) out[i] = number(first + i);
  return made;
}

struct Parameters {
  Context& context;
  std::vector<Var> all{};
  std::size_t next = 0;

  Var of(const Shape& shape) {
    if (next == all.size())
      all.push_back(Var::parameter(context, numbers(context, shape, 1000 * (next + 1))));
    return all[next++];
  }
};

struct Step {
  Tape& tape;
  const Sequences& batch;
  std::size_t first_row;  // of the part, in the whole batch
  Parameters& parameters;

  Var weight(const Shape& shape) const { return parameters.of(shape); }
  // Ids of the rows of the batch, each `inner` of them.
  Var ids(std::size_t inner, std::size_t classes) const {
    const Tensor made = Tensor::empty(tape.context(), Shape{batch.rows(), inner}, DType::int32);
    for (std::size_t i = 0; i < made.elements(); ++i)
      made.mutable_data<std::int32_t>()[i] =
          static_cast<std::int32_t>((first_row * inner + i) * 7 % classes);
    return tape.constant(made, batch);
  }
};

struct Case {
  const char* name;
  Shape row;  // the shape of x without the rows, which are its first dimension
  std::function<Var(const Step&, const Var&)> result;
};

Var loss_of(Tape& tape, const Var& y) { return sum(tape, square(tape, y), ~0u); }

// Time first: [T, rows, C].
Var time_first(const Step& s, const Var& x) { return transpose(s.tape, x, 0, 1); }
// Time and rows in one dimension: [T * rows, C].
Var merged(const Step& s, const Var& x) {
  return reshape(s.tape, time_first(s, x), Shape{T * s.batch.rows(), C});
}
Var linear_of(const Step& s, const Var& x) {
  return linear(s.tape, x, s.weight({4, x.shape().columns()}), s.weight({4}));
}
Var norm_of(const Step& s, const Var& x) {
  const std::size_t columns = x.shape().columns();
  return layer_norm(s.tape, x, s.weight({columns}), s.weight({columns}), 1e-5f);
}
Var scaled(const Step& s, const Var& x, const Shape& shape) {
  return mul(s.tape, x, s.weight(shape));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add_case = [&](const char* name, const Shape& row,
                            std::function<Var(const Step&, const Var&)> result) {
    all.push_back({name, row, std::move(result)});
  };
  const auto drop = [](const Step& s, const Var& x) { return dropout(s.tape, x, 0.5f, 3); };
  // Draws.
  add_case("dropout [B]", {}, [=](auto& s, auto& x) { return drop(s, scaled(s, x, {1})); });
  add_case("dropout [B, C]", {C}, [=](auto& s, auto& x) { return drop(s, scaled(s, x, {C})); });
  add_case("dropout [B, T, C]", {T, C}, [=](auto& s, auto& x) {
    return drop(s, scaled(s, x, {T, C}));
  });
  add_case("dropout of images", {2, 3, 4}, [=](auto& s, auto& x) {
    return drop(s, scaled(s, x, {2, 1, 1}));
  });
  add_case("dropout [T, B, C]", {T, C},
           [=](auto& s, auto& x) { return drop(s, time_first(s, scaled(s, x, {C}))); });
  add_case("dropout [C, B]", {C},
           [=](auto& s, auto& x) { return drop(s, transpose(s.tape, scaled(s, x, {C}), 0, 1)); });
  add_case("dropout [T * B, C]", {T, C},
           [=](auto& s, auto& x) { return drop(s, merged(s, scaled(s, x, {C}))); });
  // Products and norms.
  add_case("linear [B, T, C]", {T, C}, [](auto& s, auto& x) { return linear_of(s, x); });
  add_case("linear [T, B, C]", {T, C},
           [](auto& s, auto& x) { return linear_of(s, time_first(s, x)); });
  add_case("linear [T * B, C]", {T, C},
           [](auto& s, auto& x) { return linear_of(s, merged(s, x)); });
  add_case("linear [B * T, C]", {T, C}, [](auto& s, auto& x) {
    return linear_of(s, reshape(s.tape, x, Shape{s.batch.rows() * T, C}));
  });
  add_case("linear with dropout and residual [T, B, C]", {T, C}, [](auto& s, auto& x) {
    const Var y = time_first(s, x);
    return linear(s.tape, y, s.weight({C, C}), s.weight({C}),
                  {.activation = Activation::gelu, .dropout = dropout_setting(s.tape, 0.25f, 4)},
                  y);
  });
  add_case("matmul [B, T, C]", {T, C}, [](auto& s, auto& x) {
    return matmul(s.tape, x, s.weight({C, 4}));
  });
  add_case("matmul [T, B, C]", {T, C}, [](auto& s, auto& x) {
    return matmul(s.tape, time_first(s, x), s.weight({C, 4}));
  });
  add_case("matmul, columns are the batch", {C}, [](auto& s, auto& x) {
    return matmul(s.tape, s.weight({4, C}), transpose(s.tape, x, 0, 1));
  });
  add_case("matmul by rows of the batch", {C}, [](auto& s, auto& x) {
    return matmul(s.tape, s.weight({4, C}), x, {.transpose_b = true});
  });
  add_case("matmul of columns", {C}, [](auto& s, auto& x) {
    return matmul(s.tape, transpose(s.tape, x, 0, 1), s.weight({C, 4}), {.transpose_a = true});
  });
  add_case("norm [B, T, C]", {T, C}, [](auto& s, auto& x) { return norm_of(s, x); });
  add_case("norm [T, B, C]", {T, C}, [](auto& s, auto& x) { return norm_of(s, time_first(s, x)); });
  add_case("norm [T * B, C]", {T, C}, [](auto& s, auto& x) { return norm_of(s, merged(s, x)); });
  // Broadcasting and sums.
  add_case("positions [T, C]", {T, C}, [](auto& s, auto& x) {
    return add(s.tape, x, s.weight({T, C}));
  });
  add_case("positions [T, 1, C]", {T, C}, [](auto& s, auto& x) {
    return scaled(s, time_first(s, x), {T, 1, C});
  });
  add_case("sum over time, as long as the batch", {8, C}, [](auto& s, auto& x) {
    return linear_of(s, sum(s.tape, scaled(s, x, {8, C}), 2));
  });
  add_case("mean over time first, as long as the batch", {8, C}, [](auto& s, auto& x) {
    const Var y = transpose(s.tape, scaled(s, x, {8, C}), 0, 1);
    return linear_of(s, mean(s.tape, y, 1));
  });
  add_case("softmax over time", {T, C},
           [](auto& s, auto& x) { return linear_of(s, softmax(s.tape, scaled(s, x, {C}), 1)); });
  add_case("maximum over time", {T, C},
           [](auto& s, auto& x) { return linear_of(s, max(s.tape, scaled(s, x, {C}), 1).values); });
  add_case("maximum over time first", {T, C}, [](auto& s, auto& x) {
    return linear_of(s, max(s.tape, time_first(s, scaled(s, x, {C})), 0).values);
  });
  add_case("where", {T, C}, [](auto& s, auto& x) {
    const Var zero = s.tape.constant(Tensor::zeros(s.tape.context(), Shape{1}, DType::boolean));
    return where(s.tape, zero, s.weight({T, C}), scaled(s, x, {C}));
  });
  // Moved and chosen elements.
  add_case("index_select of time", {T, C}, [](auto& s, auto& x) {
    const std::vector<std::int32_t> index = {4, 0, 2, 2};
    const Var chosen =
        index_select(s.tape, x, 1,
                     s.tape.constant(Tensor::from(s.tape.context(),
                                                  std::span<const std::int32_t>(index), Shape{4})));
    return linear_of(s, chosen);
  });
  add_case("index_select of columns", {C}, [](auto& s, auto& x) {
    const std::vector<std::int32_t> index = {4, 0, 2};
    return linear_of(
        s, index_select(s.tape, x, 1,
                        s.tape.constant(Tensor::from(
                            s.tape.context(), std::span<const std::int32_t>(index), Shape{3}))));
  });
  add_case("stack, slice and concatenate", {T, C}, [](auto& s, auto& x) {
    const Var y = stack(s.tape, {x, square(s.tape, x)}, 1);  // [B, 2, T, C]
    const Var z = slice(s.tape, y, 2, 1, T, 2);
    return linear_of(s, concatenate(s.tape, {z, z}, 1));
  });
  add_case("stack in front", {C}, [](auto& s, auto& x) {
    return linear_of(s, stack(s.tape, {x, square(s.tape, x)}, 0));
  });
  add_case("pad", {T, C}, [](auto& s, auto& x) {
    return linear_of(s, pad(s.tape, x, {{1, 2}, {0, 1}}, 0.5f));
  });
  add_case("rows cut in two", {T, C}, [](auto& s, auto& x) {
    const Var y = reshape(s.tape, x, Shape{s.batch.rows() * T, C});
    return linear_of(s, reshape(s.tape, y, Shape{s.batch.rows() * T * 2, C / 2}));
  });
  // Tables and images.
  add_case("embedding [B, T]", {T, C}, [](auto& s, auto& x) {
    const Var rows = embedding(s.tape, s.weight({9, C}), s.ids(T, 9), {.dense_gradient = true});
    return mul(s.tape, rows, x);
  });
  add_case("embedding [T, B]", {T, C}, [](auto& s, auto& x) {
    const Var ids = transpose(s.tape, s.ids(T, 9), 0, 1);
    return mul(s.tape, embedding(s.tape, s.weight({9, C}), ids, {.dense_gradient = true}),
               time_first(s, x));
  });
  add_case("convolution", {2, 5, 4}, [](auto& s, auto& x) {
    const Var y = conv2d(s.tape, x, s.weight({3, 2, 3, 3}), s.weight({3}));
    return linear_of(s, reshape(s.tape, y, Shape{s.batch.rows(), 3 * 3 * 2}));
  });
  add_case("convolution of frames", {T, 2, 5, 4}, [](auto& s, auto& x) {
    const Var frames = reshape(s.tape, x, Shape{s.batch.rows() * T, 2, 5, 4});
    return conv2d(s.tape, frames, s.weight({3, 2, 3, 3}), s.weight({3}));
  });
  // Losses of rows.
  add_case("cross_entropy [B, T, C]", {T, C}, [](auto& s, auto& x) {
    return cross_entropy(s.tape, scaled(s, x, {C}), s.ids(T, C), {.reduction = LossReduction::sum});
  });
  add_case("cross_entropy [T, B, C]", {T, C}, [](auto& s, auto& x) {
    return cross_entropy(s.tape, time_first(s, scaled(s, x, {C})),
                         transpose(s.tape, s.ids(T, C), 0, 1), {.reduction = LossReduction::sum});
  });
  add_case("losses of rows [T, B, C]", {T, C}, [](auto& s, auto& x) {
    return cross_entropy(s.tape, time_first(s, scaled(s, x, {C})),
                         transpose(s.tape, s.ids(T, C), 0, 1), {.reduction = LossReduction::none});
  });
  add_case("mse_loss [T, B, C]", {T, C}, [](auto& s, auto& x) {
    const Var y = time_first(s, scaled(s, x, {C}));
    return mse_loss(s.tape, y, s.tape.constant(Tensor::zeros(s.tape.context(), y.shape())),
                    LossReduction::sum);
  });
  return all;
}

struct Made {
  std::vector<float> loss;  // of the whole, or of each part
  std::vector<std::vector<float>> gradients;
};

// Runs rows of the batch in parts of `shards` shards each; the gradients are added in the order of
// a tree over the parts.
std::vector<Made> run_parts(Context& context, const Case& one, std::size_t rows,
                            const Sequences& whole, std::size_t shards) {
  Parameters parameters{context};
  std::vector<Made> parts;
  const Tensor all = numbers(context, [&] {
    std::vector<std::size_t> sizes{rows};
    sizes.insert(sizes.end(), one.row.begin(), one.row.end());
    return Shape(std::span<const std::size_t>(sizes));
  }());
  for (std::size_t first = 0; first < whole.shards(); first += shards) {
    const Sequences part = whole.part(context, first, shards);
    const std::size_t row = whole.row_bounds()[first];
    Tape tape(context, {.seed = 5, .step = 2});
    const Var x = tape.constant(clone(context, all.slice(0, row, row + part.rows())), part);
    parameters.next = 0;
    const Var y = one.result({tape, part, row, parameters}, x);
    const Var loss = y.shape().rank() == 0 ? y : loss_of(tape, y);
    Made made;
    made.loss.push_back(loss.value().item<float>());
    tape.backward(loss);
    for (const Var& parameter : parameters.all) {
      const Tensor gradient = parameter.gradient().values;
      std::vector<float> values(parameter.value().elements(), 0.0f);
      if (gradient.defined()) {
        const Tensor plain = contiguous(context, gradient);
        values.assign(plain.span<float>().begin(), plain.span<float>().end());
      }
      made.gradients.push_back(values);
      parameter.clear_gradient();
    }
    parts.push_back(std::move(made));
  }
  return parts;
}

Made added(const Made& a, const Made& b) {
  Made sum = a;
  sum.loss[0] += b.loss[0];
  for (std::size_t i = 0; i < sum.gradients.size(); ++i)
    for (std::size_t k = 0; k < sum.gradients[i].size(); ++k)
      sum.gradients[i][k] += b.gradients[i][k];
  return sum;
}

Made tree(std::vector<Made> parts) {
  while (parts.size() > 1) {
    std::vector<Made> next;
    for (std::size_t i = 0; i < parts.size(); i += 2) next.push_back(added(parts[i], parts[i + 1]));
    parts = std::move(next);
  }
  return parts[0];
}

}  // namespace

TEST_CASE("gradients of parts of a batch add up to those of the whole batch", "[unit][autograd]") {
  for (const int threads : {1, 2}) {
    auto context = make_context({.threads = threads});
    for (const Case& one : cases())
      for (const std::size_t rows : {std::size_t{8}, std::size_t{5}, std::size_t{19}}) {
        const Sequences whole = Sequences::uniform(context, rows);
        const Made wanted = run_parts(context, one, rows, whole, 8)[0];
        for (const std::size_t shards : {4u, 2u, 1u}) {
          INFO(one.name << ", " << rows << " rows, parts of " << shards << " shards, " << threads
                        << " threads");
          const Made made = tree(run_parts(context, one, rows, whole, shards));
          CHECK(made.loss == wanted.loss);
          CHECK(made.gradients == wanted.gradients);
        }
      }
  }
}

TEST_CASE("an element is dropped by the ordinal of its row, its inner row and its column",
          "[unit][autograd]") {
  auto context = make_context();
  const std::vector<std::size_t> lengths = {2, 0, 1};
  const Sequences batch = Sequences::from_lengths(context, lengths, {.first_ordinal = 7});
  const std::size_t sequence[] = {0, 0, 2}, position[] = {0, 1, 0};
  Tape tape(context, {.seed = 5, .step = 2});
  const Var x = tape.constant(Tensor::full(context, Shape{3, T, C}, 1.0f), batch);
  const Tensor y = dropout(tape, x, 0.5f, 9).value();
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t t = 0; t < T; ++t)
      for (std::size_t c = 0; c < C; ++c) {
        const std::uint64_t index = token_index(7 + sequence[row], position[row] * T + t, c);
        const bool dropped =
            random_word({.seed = 5, .stream = 9, .step = 2, .index = index}) < 0x80000000u;
        CHECK(y.span<float>()[(row * T + t) * C + c] == (dropped ? 0.0f : 2.0f));
      }
}

TEST_CASE("a variable says where the rows of its batch are", "[unit][autograd]") {
  auto context = make_context();
  const Sequences batch = Sequences::uniform(context, 4);
  Tape tape(context);
  const Var x = tape.constant(Tensor::zeros(context, Shape{4, 3, 5}), batch);
  const auto place = [](const Var& y) {
    REQUIRE(y.sequences().defined());
    return y.sequences().place();
  };
  CHECK(place(x) == BatchPlace{0, 1, 1});
  CHECK(place(transpose(tape, x, 0, 2)) == BatchPlace{2, 1, 1});
  CHECK(place(reshape(tape, x, Shape{12, 5})) == BatchPlace{0, 1, 3});
  CHECK(place(reshape(tape, transpose(tape, x, 0, 1), Shape{12, 5})) == BatchPlace{0, 3, 1});
  // A dimension that has some of the rows, not all, has no batch.
  CHECK_FALSE(reshape(tape, x, Shape{2, 2, 15}).sequences().defined());
  CHECK_FALSE(slice(tape, x, 0, 1, 3).sequences().defined());
  CHECK_FALSE(sum(tape, x, 1).sequences().defined());
  CHECK(place(sum(tape, x, 2)) == BatchPlace{0, 1, 1});
  CHECK(place(sum(tape, transpose(tape, x, 0, 1), 1)) == BatchPlace{0, 1, 1});
}

TEST_CASE("sequences that a tensor does not have are refused", "[unit][autograd]") {
  auto context = make_context();
  Tape tape(context);
  const Sequences batch = Sequences::uniform(context, 4);
  const Tensor x = Tensor::zeros(context, Shape{3, 4});
  const auto id_of = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.id().name);
    }
    return "";
  };
  CHECK(id_of([&] { tape.constant(x, batch); }) == "operator.sequences");
  CHECK(id_of([&] { tape.input(x, batch); }) == "operator.sequences");
  CHECK(id_of([&] { tape.with_sequences(tape.constant(x), batch); }) == "operator.sequences");
  CHECK(id_of([&] { tape.constant(x, batch.at({.dimension = 1})); }).empty());
}

TEST_CASE("scales of a batch behind another dimension are in the order of its rows",
          "[unit][autograd]") {
  auto context = make_context({.threads = 1});
  constexpr std::size_t rows = 3;
  const Tensor x = numbers(context, Shape{T, rows, 1});
  const QuantizeSetting setting{.quantizer = {.format = formats::fp8_e4m3fn,
                                              .scaling = {.policy = ScalePolicy::current,
                                                          .granularity = Granularity::row,
                                                          .format = ScaleFormat::power_of_two}}};
  const auto quantized = [&](bool with_batch) {
    Tape tape(context);
    Var input = tape.constant(x);
    if (with_batch)
      input = tape.constant(x, Sequences::uniform(context, rows).at({.dimension = 1}));
    const VarOutputs all =
        tape.apply_all(*tape.operators().quantize, setting, std::span(&input, 1));
    return std::pair{all[0].value(), all[1].value()};
  };
  const auto [plain, plain_scales] = quantized(false);
  const auto [batched, scales] = quantized(true);
  REQUIRE(scales.shape() == Shape{T * rows, 1});
  const Tensor in_place = contiguous(context, batched), expected = contiguous(context, plain);
  REQUIRE(in_place.describe() == expected.describe());
  CHECK(std::memcmp(in_place.raw(), expected.raw(), expected.bytes()) == 0);
  for (std::size_t t = 0; t < T; ++t)
    for (std::size_t row = 0; row < rows; ++row) {
      INFO("time " << t << ", row " << row);
      CHECK(scales.data<float>()[row * T + t] == plain_scales.data<float>()[t * rows + row]);
    }
}
