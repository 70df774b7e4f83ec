// Models as lists of pieces: run one by one they are the model, and what is made later has the bits
// of what is made at once.

#include <soma/nn/later.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstring>
#include <string>
#include <vector>

using namespace soma;

namespace {

models::BertConfig small_bert(std::size_t layers) {
  models::BertConfig config;
  config.vocabulary = 40;
  config.width = 16;
  config.layers = layers;
  config.heads = 2;
  config.inner = 32;
  config.positions = 16;
  return config;
}

data::Batch batch_of(const Tensor& rows, const Sequences& sequences) {
  data::Batch batch;
  batch.inputs = {rows, sequences};
  return batch;
}

Var run_all(const nn::Pieces& pieces, Tape& tape, const data::Batch& batch) {
  Var x;
  for (const nn::Piece& piece : pieces) x = piece.run(tape, x, batch);
  return x;
}

std::vector<std::string> names_of(const nn::Pieces& pieces) {
  std::vector<std::string> names;
  for (const nn::Piece& piece : pieces) names.push_back(piece.name);
  return names;
}

// The parameters of the pieces, one after the other, are those of the model.
void check_parameters(const nn::Pieces& pieces, const Parameters& all) {
  std::size_t next = 0;
  for (const nn::Piece& piece : pieces)
    for (const Parameter& parameter : piece.parameters) {
      REQUIRE(next < all.size());
      CHECK(parameter.name == all[next].name);
      CHECK(parameter.var.is(all[next].var));
      CHECK(parameter.role == all[next].role);
      ++next;
    }
  CHECK(next == all.size());
}

template <class Model>
void check_same(Context& context, const Model& model, const data::Batch& batch, const Var& types) {
  const nn::Pieces pieces = model.pieces();
  check_parameters(pieces, nn::parameters(model));
  Tape tape(context, {.seed = 3, .step = 1}), again(context, {.seed = 3, .step = 1});
  Var wanted;
  if constexpr (requires { model(tape, wanted, types); })
    wanted = model(tape, tape.constant(batch.inputs), types);
  else
    wanted = model(tape, tape.constant(batch.inputs));
  const Var found = run_all(pieces, again, batch);
  CHECK(found.shape() == wanted.shape());
  CHECK(soma_test::bits(context, found.value()) == soma_test::bits(context, wanted.value()));
}

}  // namespace

TEST_CASE("pieces one by one are the model", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context, 5};
  const Tensor images = soma_test::random_tensor(context, Shape{6, 2, 8, 8}, "images");
  const models::ConvNet net(
      scope, {.channels = 2, .height = 8, .width = 8, .labels = 3, .blocks = {4, 4}, .hidden = 5});
  check_same(context, net, batch_of(images, Sequences::uniform(context, 6)), {});
  CHECK(names_of(net.pieces()) ==
        std::vector<std::string>{"block.0", "block.1", "hidden", "classifier"});
  const models::Mlp mlp(scope, std::vector<std::size_t>{4, 6, 3});
  check_same(context, mlp,
             batch_of(soma_test::random_tensor(context, Shape{5, 4}, "rows"),
                      Sequences::uniform(context, 5)),
             {});
  CHECK(names_of(mlp.pieces()) == std::vector<std::string>{"layer.0", "layer.1"});
  const std::vector<std::vector<std::int32_t>> texts{{1, 2, 3}, {4, 5}, {6, 7, 8, 9}};
  data::Batch batch;
  batch.inputs = make_ragged(context, std::span(texts));
  for (const std::size_t layers : {0u, 1u, 3u})
    for (const bool typed : {false, true}) {
      const models::BertClassifier bert(scope, small_bert(layers), 2);
      batch.types = typed ? Tensor::from(context, std::vector<std::int32_t>(9, 1), {9}) : Tensor();
      check_same(context, bert, batch,
                 typed ? Var::constant(context, batch.types, batch.inputs.sequences) : Var());
      CHECK(bert.pieces().size() == layers + 2);
    }
}

TEST_CASE("parameters that are made later are those made at once", "[unit][models]") {
  auto context = make_context({.threads = 1});
  nn::Later later;
  const nn::Scope now{context, 5, "net"}, then{context, 5, "net", &later};
  const auto compare = [&](const auto& at_once, const auto& model) {
    const Parameters wanted = nn::parameters(at_once), found = nn::parameters(model);
    REQUIRE(found.size() == wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK_FALSE(found[i].value().defined());
      CHECK(found[i].value().describe() == wanted[i].value().describe());
    }
    later.make(context, found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO(found[i].name);
      CHECK(soma_test::bits(context, found[i].value()) ==
            soma_test::bits(context, wanted[i].value()));
    }
    found[0].var.drop_value();
    CHECK_FALSE(found[0].value().defined());
    later.make(context, found);  // once more, and nothing else
    CHECK(soma_test::bits(context, found[0].value()) ==
          soma_test::bits(context, wanted[0].value()));
  };
  compare(models::BertClassifier(now, small_bert(2), 2),
          models::BertClassifier(then, small_bert(2), 2));
  const models::ConvNetConfig images{.height = 8, .width = 8, .blocks = {3}, .hidden = 4};
  compare(models::ConvNet(now, images), models::ConvNet(then, images));
  // Rows from elsewhere, which are not read before; rows in another order.
  const nn::Linear drawn(now / "linear", 3, 4), linear(then / "linear", 3, 4);
  const Tensor from = Tensor::full(context, {2, 3}, 8.0f);
  later.replace({"rows", linear.weight, 1, 3}, from,
                [](Context&, const Tensor& source, const Tensor& to) { copy(source, to); });
  later.order_rows({"weight", linear.weight}, {3, 2, 1, 0});
  from.mutable_data<float>()[5] = 9;
  later.make(context, {{"weight", linear.weight}});
  const auto* made = linear.weight.value().data<float>();
  const auto* wanted = drawn.weight.value().data<float>();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(made[i] == wanted[9 + i]);
    CHECK(made[9 + i] == wanted[i]);
  }
  for (std::size_t i = 3; i < 9; ++i) CHECK(made[i] == (i == 5 ? 9.0f : 8.0f));
  const Var foreign = Var::parameter(context, Tensor::outline_of({2}, DType::fp32));
  CHECK(soma_test::id_of([&] {
          later.make(context, {{"foreign", foreign}});
        }) == "tensor.undefined");
}

TEST_CASE("rows that are all replaced are not drawn, in whatever order", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const auto is_drawn = [&](std::uint64_t seed, std::initializer_list<std::size_t> thirds) {
    const nn::Linear drawn(nn::Scope{context, seed, "linear"}, 64, 48);
    nn::Later later;
    const nn::Linear linear(nn::Scope{context, seed, "linear", &later}, 64, 48);
    // A fill that writes nothing shows what was there before it: the draws of this seed, or
    // whatever the heap had.
    for (const std::size_t i : thirds)
      later.replace({"third", linear.weight, 16 * i, 16 * (i + 1)},
                    Tensor::outline_of({16, 64}, DType::fp32),
                    [](Context&, const Tensor&, const Tensor&) {});
    later.make(context, {{"weight", linear.weight}});
    return soma_test::bits(context, linear.weight.value()) ==
           soma_test::bits(context, drawn.weight.value());
  };
  CHECK(is_drawn(1, {1, 2}));
  CHECK_FALSE(is_drawn(2, {0, 1, 2}));
  CHECK_FALSE(is_drawn(3, {1, 0, 2}));  // key, query, value, as files sort them
  CHECK_FALSE(is_drawn(4, {2, 1, 0}));
}

TEST_CASE("BERT-base in two by its parameters", "[unit][models]") {
  auto context = make_context({.threads = 1});
  nn::Later later;
  const models::BertClassifier bert(nn::Scope{context, 1, "", &later}, {}, 2);
  const std::size_t before = context.memory_use().peak_bytes;
  PartitionProblem problem{.partitions = 2};
  std::vector<std::size_t> counts;
  for (const nn::Piece& piece : bert.pieces()) {
    std::size_t count = 0;
    for (const Parameter& parameter : piece.parameters) count += parameter.value().elements();
    counts.push_back(count);
    problem.weights.push_back(static_cast<double>(count));
  }
  CHECK(partition_pieces(problem) == std::vector<std::size_t>{5});
  std::size_t first = 0, second = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) (i < 5 ? first : second) += counts[i];
  CHECK(first == 52'188'672);
  CHECK(second == 57'295'106);
  CHECK(before < (std::size_t{1} << 22));  // no elements
}
