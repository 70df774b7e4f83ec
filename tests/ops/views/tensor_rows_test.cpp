// Tensors as rows: dimensions of size 1 have no stride, wherever a view comes from. Views and their
// row-major copies give equal bits, and the values that are right by hand.

#include <soma/nn.hpp>
#include <soma/ops/all.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::random_tensor;
using soma_test::values;

namespace {

// A chain of up to three views of a larger tensor, in which most sizes are 1. The choice depends on
// the number alone.
Tensor some_view(Context& context, std::uint64_t number) {
  auto word = [&, i = std::uint64_t{0}](std::uint64_t below) mutable {
    return random_word({.seed = 5, .stream = 1}, number * 32 + i++) % below;
  };
  constexpr std::size_t sizes[] = {1, 1, 1, 2, 3, 5};
  std::vector<std::size_t> all(1 + word(4));
  for (std::size_t& size : all) size = sizes[word(std::size(sizes))];
  Tensor view = random_tensor(context, Shape(std::span<const std::size_t>(all)), "view", 4);
  for (std::uint64_t left = word(4); left > 0; --left) {
    const std::size_t d = word(view.rank());
    switch (word(5)) {
      case 0:
        view = view.transpose(d, word(view.rank()));
        break;
      case 1:
        if (view.size(d) > 1) view = view.slice(d, 1 + word(view.size(d) - 1));
        break;
      case 2:
        view = view.slice(d, 0, to_end, 2);
        break;
      case 3:
        if (view.size(d) == 1) view = view.broadcast_to(view.shape().with(d, 2));
        break;
      default:
        if (view.rank() > 1) view = view.select(d, view.size(d) - 1);
    }
  }
  return view;
}

using Function = std::function<Var(Tape&, const Var&)>;
struct Named {
  const char* name;
  Function function;
};

// Of [B, C, H, W].
const Named functions[] = {
    {"relu", [](Tape& tape, const Var& x) { return relu(tape, x); }},
    {"gelu", [](Tape& tape, const Var& x) { return gelu(tape, x); }},
    {"clamp", [](Tape& tape, const Var& x) { return clamp(tape, x, -1, 1); }},
    {"x + x^T",
     [](Tape& tape, const Var& x) {
       return add(tape, x, reshape(tape, sum(tape, x, 8), x.shape().with(3, 1)));
     }},
    {"dropout", [](Tape& tape, const Var& x) { return dropout(tape, x, 0.5f, 3); }},
    {"softmax", [](Tape& tape, const Var& x) { return softmax(tape, x); }},
    {"softmax over 0", [](Tape& tape, const Var& x) { return softmax(tape, x, 0); }},
    {"softmax over 1", [](Tape& tape, const Var& x) { return softmax(tape, x, 1); }},
    {"log softmax over 2", [](Tape& tape, const Var& x) { return log_softmax(tape, x, 2); }},
    {"layer norm",
     [](Tape& tape, const Var& x) {
       Context& context = tape.context();
       const Shape columns{x.shape().columns()};
       return layer_norm(tape, x, tape.constant(random_tensor(context, columns, "gamma")),
                         tape.constant(random_tensor(context, columns, "beta")));
     }},
    {"linear",
     [](Tape& tape, const Var& x) {
       return linear(
           tape, x,
           tape.constant(random_tensor(tape.context(), Shape{3, x.shape().columns()}, "weight")));
     }},
    {"matmul of stacks",
     [](Tape& tape, const Var& x) { return matmul(tape, x, transpose(tape, x, 2, 3)); }},
    {"mean squares",
     [](Tape& tape, const Var& x) {
       return mse_loss(tape, x, tape.constant(random_tensor(tape.context(), x.shape(), "target")));
     }},
    {"absolute errors",
     [](Tape& tape, const Var& x) {
       return l1_loss(tape, x, tape.constant(random_tensor(tape.context(), x.shape(), "target")),
                      LossReduction::none);
     }},
    {"sum over 1 and 3", [](Tape& tape, const Var& x) { return sum(tape, x, 10); }},
    {"mean over 2", [](Tape& tape, const Var& x) { return mean(tape, x, 4); }},
    {"padded",
     [](Tape& tape, const Var& x) {
       return gelu(tape, pad(tape, gelu(tape, x), {{1, 0}, {0, 1}, {2, 1}, {0, 2}}));
     }},
    {"side by side",
     [](Tape& tape, const Var& x) {
       return gelu(tape, concatenate(tape, {gelu(tape, x), x, relu(tape, x)}, 1));
     }},
    {"pooled",
     [](Tape& tape, const Var& x) {
       return average_pool2d(tape, x, {1, 1});
     }},
    {"in bf16 and back",
     [](Tape& tape, const Var& x) {
       return cast(tape, silu(tape, cast(tape, x, DType::bf16)), DType::fp32);
     }},
};

// The result and the gradient of x, where x and the gradient of the result are views or copies.
std::pair<std::vector<std::byte>, std::vector<std::byte>> both(Context& context,
                                                               const Function& function,
                                                               const Tensor& given, bool copied) {
  Tape tape(context, {.seed = 4});
  const Var x = Var::parameter(context, copied ? clone(context, given) : given);
  const Var y = function(tape, x);
  const Shape& shape = y.shape();
  Tensor dy = random_tensor(context, shape, "dy");
  if (shape.rank() > 1) {  // dimensions of size 1 get strides that mean nothing
    dy = random_tensor(context, shape.with(0, 2 * shape[0]).with(1, shape[1] + 2), "dy")
             .slice(0, 0, to_end, 2)
             .slice(1, 1, 1 + shape[1]);
  }
  tape.backward(y, copied ? clone(context, dy) : dy);
  return {bits(context, y.value()), bits(context, x.gradient().values)};
}

// Crops of images and turned ones: strides that are left over from larger tensors.
std::vector<Tensor> odd_images(Context& context) {
  const Tensor wide = random_tensor(context, Shape{3, 4, 5, 6}, "images", 3);
  const Tensor grey = random_tensor(context, Shape{3, 1, 5, 6}, "grey", 3);
  const Tensor rows = random_tensor(context, Shape{3, 4, 1, 6}, "rows", 3);
  return {
      wide.slice(1, 2, 3),
      wide.slice(1, 2, 3).slice(2, 1, 4),
      wide.slice(0, 1, 2).slice(3, 5, 6),
      wide.slice(2, 0, 1).slice(3, 0, to_end, 5),
      wide.slice(3, 2, 3).transpose(1, 3),
      grey.slice(2, 1, 3),
      grey.slice(3, 1, 4),
      grey.transpose(0, 1),
      grey.transpose(1, 3),
      grey.transpose(1, 2).slice(3, 0, 1),
      rows.transpose(1, 2),
      rows.transpose(2, 3),
      rows.transpose(0, 2).slice(1, 1, 2),
      grey.slice(0, 0, 1).broadcast_to(Shape{2, 1, 5, 6}),
      grey.slice(2, 0, 1).broadcast_to(Shape{3, 1, 5, 6}).slice(3, 1, 3),
      random_tensor(context, Shape{13, 1, 1, 1}, "column").transpose(0, 3),
      random_tensor(context, Shape{13, 1, 1, 1}, "column").transpose(0, 2),
  };
}

}  // namespace

TEST_CASE("rows hold the elements of any view, without a stride of size 1", "[unit]") {
  auto context = make_context({.threads = 1});
  std::size_t copies = 0, views = 0;
  for (std::uint64_t number = 0; number < 3000; ++number) {
    const Tensor tensor = some_view(context, number);
    INFO(number << ": " << tensor.describe());
    const soma::detail::TensorRows rows = soma::detail::rows_of(context, tensor);
    const std::vector<float> wanted = values(context, tensor);
    const std::size_t columns = tensor.shape().columns();
    REQUIRE(rows.rows() * rows.columns() == wanted.size());
    REQUIRE(rows.columns() == columns);
    const auto* first = reinterpret_cast<const float*>(rows.data());
    bool equal = true;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      equal =
          equal &&
          wanted[i] == first[i / columns * rows.row_stride() + i % columns * rows.column_stride()];
    CHECK(equal);
    if (columns == 1) CHECK(rows.column_stride() == 1);
    if (tensor.contiguous()) {
      CHECK(rows.data() == tensor.raw());
      CHECK(rows.column_stride() == 1);
      if (rows.rows() > 1) CHECK(rows.row_stride() == columns);
    }
    CHECK(rows.contiguous() == rows.tensor().contiguous());
    (rows.data() == tensor.raw() ? views : copies) += tensor.contiguous() ? 0 : 1;
  }
  CHECK(copies > 50);  // leading dimensions without a common stride, and only those
  CHECK(views > copies);
  CHECK_FALSE(soma::detail::rows_of(context, Tensor()).defined());
}

TEST_CASE("functions of views with dimensions of size 1 are those of their copies", "[unit]") {
  auto context = make_context({.threads = 2});
  for (const Tensor& image : odd_images(context))
    for (const Named& named : functions) {
      INFO(named.name << " of " << image.describe());
      const auto of_view = both(context, named.function, image, false);
      const auto of_copy = both(context, named.function, image, true);
      CHECK(of_view.first == of_copy.first);
      CHECK(of_view.second == of_copy.second);
    }
}

TEST_CASE("programs read views with dimensions of size 1 as the host does", "[unit]") {
  const Named on_core[] = {functions[0], functions[5],  functions[6],  functions[7],
                           functions[9], functions[10], functions[12], functions[14]};
  auto host = make_context({.threads = 1});
  for (std::size_t i = 0; i < odd_images(host).size(); ++i)
    for (const Named& named : on_core) {
      const Tensor image = odd_images(host)[i];
      INFO(named.name << " of view " << i << ", " << image.describe());
      Tape tape(host, {.training = false});
      const std::vector<float> wanted =
          values(host, named.function(tape, tape.constant(image)).value());
      auto context = make_context({.threads = 1});
      const Tensor own = odd_images(context)[i];
      std::vector<float> given;
      {
        const soma_test::OnDevice on(context, soma_test::stressed(3));
        Tape recorded(context, {.training = false});
        given = values(context, named.function(recorded, recorded.constant(own)).value());
      }
      REQUIRE(given.size() == wanted.size());
      double worst = 0;
      for (std::size_t j = 0; j < given.size(); ++j)
        worst = std::max(worst, std::abs(static_cast<double>(given[j] - wanted[j])));
      CHECK(worst < 1e-4);
    }
}

TEST_CASE("a softmax beside a dimension of size 1 has the values that it should", "[unit]") {
  auto context = make_context();
  Tape tape(context);
  const auto of = [&](std::initializer_list<float> numbers, const Shape& shape, std::size_t over) {
    const Var x = tape.constant(Tensor::from<float>(context, numbers, shape));
    return values(context, softmax(tape, x, over).value());
  };
  const float third = std::log(2.0f);  // 1/3 beside 2/3
  for (const std::vector<float>& all :
       {of({0, third, third, 0, 5, 5 + third}, Shape{3, 2, 1}, 1),
        of({0, third, third, 0, 5, 5 + third}, Shape{3, 1, 2}, 2),
        of({0, third, third, 0, 5, 5 + third}, Shape{3, 1, 2, 1}, 2)})
    for (std::size_t i = 0; i < 6; ++i)
      CHECK(std::abs(all[i] - (i == 1 || i == 2 || i == 5 ? 2.0f : 1.0f) / 3) < 1e-6f);
  // Over rows of one channel: columns of equal numbers.
  const std::vector<float> rows = of({0, 7, 0, 7, 3, 9, 3, 9}, Shape{2, 1, 2, 2}, 2);
  for (const float value : rows) CHECK(std::abs(value - 0.5f) < 1e-6f);
}

TEST_CASE("a layer behind a softmax over time reads its thirteen elements only", "[unit]") {
  auto context = make_context();
  // Elements on both sides that would show: the tensor lies in the middle of a larger memory.
  std::vector<float> memory(13 * 40, 1e30f);
  for (std::size_t i = 0; i < 13; ++i) memory[260 + i] = i == 4 ? std::log(4.0f) : 0;
  const Tensor x =
      Tensor::adopt(context, std::span<const float>(memory).subspan(260, 13), Shape{13, 1, 1});
  Tape tape(context);
  const Var weight = tape.constant(Tensor::from<float>(context, {16, -32}, Shape{2, 1}));
  const Var y = linear(tape, softmax(tape, tape.constant(x), 0), weight);
  const std::vector<float> all = values(context, y.value());
  REQUIRE(all.size() == 26);
  for (std::size_t i = 0; i < 13; ++i) {
    const float share = i == 4 ? 0.25f : 1.0f / 16;
    CHECK(std::abs(all[2 * i] - 16 * share) < 1e-5f);
    CHECK(std::abs(all[2 * i + 1] + 32 * share) < 1e-5f);
  }
}

TEST_CASE("gradients of pad, concatenate and sum beside a dimension of size 1", "[unit]") {
  auto context = make_context();
  const Tensor numbers = Tensor::from<float>(context, {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12},
                                             Shape{2, 1, 3, 2});
  // The gradients of the first column; relu passes nothing of the second.
  const auto gradient = [&](const Function& function) {
    Tape tape(context);
    const Var x = Var::parameter(context, clone(context, numbers));
    const Var y = function(tape, relu(tape, x));
    // Every element of the result has a weight of its own: its number, from 1.
    std::vector<float> weights;
    for (std::size_t i = 0; i < y.shape().elements(); ++i)
      weights.push_back(static_cast<float>(i + 1));
    tape.backward(y, Tensor::from(context, weights, y.shape()));
    std::vector<float> first;
    const std::vector<float> all = values(context, x.gradient().values);
    for (std::size_t i = 0; i < all.size(); i += 2) {
      first.push_back(all[i]);
      CHECK(all[i + 1] == 0);
    }
    return first;
  };
  CHECK(gradient([](Tape& tape, const Var& x) {
          return pad(tape, x, {{}, {}, {1, 1}, {}});  // [2, 1, 5, 2]
        }) == std::vector<float>{3, 5, 7, 13, 15, 17});
  CHECK(gradient([](Tape& tape, const Var& x) {
          return concatenate(tape, {neg(tape, x), x}, 2);  // [2, 1, 6, 2]
        }) == std::vector<float>{6, 6, 6, 6, 6, 6});
  CHECK(gradient([](Tape& tape, const Var& x) { return sum(tape, x, 1); }) ==
        std::vector<float>{1, 3, 5, 1, 3, 5});
  CHECK(gradient([](Tape& tape, const Var& x) { return sum(tape, x, 4); }) ==
        std::vector<float>{1, 1, 1, 3, 3, 3});
}
