// The element family: every function against the scalar reference, every type and layout against
// plain fp32, dropout against its words. (How accurate functions are: vector_math_test.cpp.)

#include <soma/kernels/reference/element.hpp>
#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/floating_dtypes.hpp"
#include "support/matrices.hpp"
#include "support/samples.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

struct Extent {
  std::size_t rows, columns;
};
constexpr Extent shapes[] = {{0, 5}, {3, 0}, {1, 1}, {5, 1}, {1, 15}, {3, 17}, {7, 33}, {2, 1031}};

constexpr Binary binaries[] = {Binary::add,    Binary::subtract, Binary::multiply,
                               Binary::divide, Binary::maximum,  Binary::minimum};

void run(const Kernels& kernels, Unary function, const MatrixOperand& x, const MatrixOperand* dy,
         Extent shape, const MatrixTarget& y) {
  UnaryArgs args;
  args.function = function;
  args.rows = shape.rows;
  args.columns = shape.columns;
  args.x = x;
  args.y = y;
  if (dy != nullptr) args.dy = *dy;
  (dy != nullptr ? kernels.element.unary_backward : kernels.element.unary)(args);
}

void run(const Kernels& kernels, Binary function, const MatrixOperand& a, const MatrixOperand& b,
         float b_scale, Extent shape, const MatrixTarget& y) {
  BinaryArgs args;
  args.function = function;
  args.rows = shape.rows;
  args.columns = shape.columns;
  args.a = a;
  args.b = b;
  args.b_scale = b_scale;
  args.y = y;
  kernels.element.binary(args);
}

// The same function of plain fp32.
template <class Function, class... More>
std::vector<float> on_plain(const Kernels& kernels, Function function, Extent shape,
                            const StoredMatrix& first, const StoredMatrix& second,
                            const More&... more) {
  std::vector<float> y(shape.rows * shape.columns);
  const MatrixOperand a = plain(first.values, shape.columns),
                      b = plain(second.values, shape.columns);
  if constexpr (sizeof...(more) == 0)
    run(kernels, function, a, &b, shape, plain_target(y, shape.columns));
  else
    run(kernels, function, a, b, more..., shape, plain_target(y, shape.columns));
  return y;
}

}  // namespace

TEST_CASE("binary functions are the correctly rounded ones", "[unit][element]") {
  auto any = make_context();
  const Extent shape{3, 341};
  const std::vector<float> a = hard_floats(shape.rows * shape.columns, 1);
  std::vector<float> b = hard_floats(a.size(), 2);
  for (std::size_t i = 0; i < b.size(); i += 5) b[i] = a[i];
  for (std::size_t i = 0; i < 8; ++i) b[10 + i] = a[i];
  for (const Target& target : any.targets().targets)
    for (const Binary function : binaries)
      for (const float scale : {1.0f, 0.3f}) {
        const bool scales = function == Binary::add || function == Binary::subtract;
        std::vector<float> y(a.size()), scaled(b.size()), wanted(a.size());
        for (std::size_t i = 0; i < b.size(); ++i) scaled[i] = scales ? b[i] * scale : b[i];
        for (std::size_t i = 0; i < a.size(); ++i)
          wanted[i] = reference::binary(function, a[i], scaled[i]);
        run(*target.kernels, function, plain(a, shape.columns), plain(b, shape.columns), scale,
            shape, plain_target(y, shape.columns));
        INFO(std::string(target.name)
             << ": function " << static_cast<int>(function) << ", scale " << scale);
        CHECK(same_bits(y, wanted));
      }
}

TEST_CASE("simple unary functions are exact", "[unit][element]") {
  auto any = make_context();
  const std::vector<float> x = hard_floats(1001), dy = hard_floats(1001, 3);
  const Extent shape{1, x.size()};
  for (const Target& target : any.targets().targets)
    for (const Unary function : {Unary::copy, Unary::negate, Unary::absolute, Unary::square,
                                 Unary::square_root, Unary::reciprocal, Unary::relu}) {
      std::vector<float> y(x.size()), wanted(x.size());
      INFO(std::string(target.name) << ": function " << static_cast<int>(function));
      for (std::size_t i = 0; i < x.size(); ++i) wanted[i] = reference::unary(function, x[i]);
      run(*target.kernels, function, plain(x, x.size()), nullptr, shape, plain_target(y, x.size()));
      CHECK(same_bits(y, wanted));
      const MatrixOperand slope = plain(dy, x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        wanted[i] = reference::unary_gradient(function, x[i], dy[i]);
      run(*target.kernels, function, plain(x, x.size()), &slope, shape, plain_target(y, x.size()));
      CHECK(same_bits(y, wanted));
    }
}

TEST_CASE("the gradient of relu selects, bit by bit", "[unit][element]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> xs = {-infinity, -1, -1e-40f, -0.0f, 0, 1e-40f, 2, infinity, nan};
  const std::vector<float> dys = {0, -0.0f, 1e-40f, -3, 3e38f, infinity, -infinity, nan};
  std::vector<float> x, dy;
  for (const float a : xs)
    for (const float b : dys) x.push_back(a), dy.push_back(b);
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    const Extent shape{1, x.size()};
    std::vector<float> dx(x.size());
    const MatrixOperand gradient = plain(dy, x.size());
    run(*target.kernels, Unary::relu, plain(x, x.size()), &gradient, shape,
        plain_target(dx, x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO(std::string(target.name) << ": x " << x[i] << ", dy " << dy[i] << ", dx " << dx[i]);
      const float wanted = reference::unary_gradient(Unary::relu, x[i], dy[i]);
      if (x[i] <= 0) {
        CHECK(dx[i] == 0);
        // As the product of dy and 0 has it. (A NaN has no sign to speak of.)
        if (!std::isnan(dy[i])) CHECK(std::signbit(dx[i]) == std::signbit(dy[i]));
      } else {
        CHECK(same_bits(std::vector<float>{dx[i]}, std::vector<float>{dy[i]}));
      }
      CHECK((dx[i] == wanted || (std::isnan(dx[i]) && std::isnan(wanted))));
    }
  }
}

TEST_CASE("element functions take operands of every type and layout", "[unit][element]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const Extent shape : shapes)
      for (const Layout layout : layouts)
        for (const DType dtype : dtypes) {
          if (!is_floating(dtype) && size_of(dtype) != 1) continue;
          const float scale = size_of(dtype) == 1 ? 0.7f : 1.0f;
          const std::int32_t zero_point = is_floating(dtype) ? 0 : 9;
          RandomFloats random(17);
          const auto [rows, columns] = shape;
          const StoredMatrix x =
              store_matrix(rows, columns, dtype, layout, random, scale, zero_point);
          const StoredMatrix other =
              store_matrix(rows, columns, DType::bf16, Layout::every_other, random);
          TargetMatrix y(rows, columns, DType::fp32);
          INFO(std::string(target.name)
               << ": " << std::string(to_string(dtype)) << ", layout " << static_cast<int>(layout)
               << ", " << rows << " x " << columns);
          run(*target.kernels, Unary::gelu, x.operand, &other.operand, shape, y.target);
          CHECK(y.holds(on_plain(*target.kernels, Unary::gelu, shape, x, other), columns));
          run(*target.kernels, Binary::subtract, other.operand, x.operand, 0.3f, shape, y.target);
          CHECK(
              y.holds(on_plain(*target.kernels, Binary::subtract, shape, other, x, 0.3f), columns));
        }
}

TEST_CASE("element functions round to every type", "[unit][element]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const Extent shape : shapes)
      for (const DType dtype : floating_dtypes)
        for (const Rounding rounding : {Rounding::nearest_even, Rounding::up, Rounding::stochastic})
          for (const int way : {0, 1, 2, 3}) {
            const auto [rows, columns] = shape;
            RandomFloats random(18);
            const StoredMatrix a =
                store_matrix(rows, columns, DType::fp32, Layout::contiguous, random);
            const StoredMatrix b =
                store_matrix(rows, columns, DType::fp32, Layout::contiguous, random);
            // Padded or not, drawn by rows, by row indices or as one run.
            TargetMatrix y(rows, columns, dtype, rounding, way == 1, way == 0 ? 5 : 0,
                           way == 2 ? 0 : 7);
            INFO(std::string(target.name) << ": " << std::string(to_string(dtype)) << ", "
                                          << std::string(to_string(rounding.mode)) << ", " << rows
                                          << " x " << columns << ", way " << way);
            run(*target.kernels, Binary::multiply, a.operand, b.operand, 1, shape, y.target);
            CHECK(y.holds(on_plain(*target.kernels, Binary::multiply, shape, a, b, 1.0f), columns));
          }
}

TEST_CASE("element functions work in place", "[unit][element]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    RandomFloats random(19);
    const std::vector<float> x = random.many(1037);
    const Extent shape{17, 61};
    std::vector<float> apart(x.size()), in_place = x;
    run(*target.kernels, Unary::tanh, plain(x, 61), nullptr, shape, plain_target(apart, 61));
    run(*target.kernels, Unary::tanh, plain(in_place, 61), nullptr, shape,
        plain_target(in_place, 61));
    CHECK(same_bits(apart, in_place));
  }
}

TEST_CASE("dropout keeps what its words say", "[unit][element]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const Extent shape : shapes)
      for (const DType dtype : {DType::fp32, DType::bf16})
        for (const int way : {0, 1, 2, 3}) {
          // By row indices, of a transposed matrix, as one run, and not as one run for the words.
          const auto [rows, columns] = shape;
          RandomFloats random(20);
          const Layout layout = way == 1 ? Layout::transposed : Layout::contiguous;
          StoredMatrix x = store_matrix(rows, columns, dtype, layout, random);
          std::vector<std::uint64_t> indices;
          for (std::size_t r = 0; r < rows; ++r) indices.push_back((rows - r) * 77);
          DropArgs args;
          args.rows = rows;
          args.columns = columns;
          args.x = x.operand;
          args.dropout.threshold = 0x60000000u;
          args.dropout.keep_scale = 1.6f;
          args.dropout.draw = {.seed = 3, .stream = 8, .step = 2, .index = 5};
          args.dropout.draw_row_stride = way == 2 ? columns : columns + 2;
          if (way == 0) args.dropout.row_indices = indices.data();
          TargetMatrix y(rows, columns, dtype, {}, false, way >= 2 ? 0 : 5);
          args.y = y.target;
          target.kernels->element.dropout(args);
          std::vector<float> wanted;
          for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < columns; ++c) {
              Draw draw = args.dropout.draw;
              draw.index += way == 0 ? indices[r] : r * args.dropout.draw_row_stride;
              wanted.push_back(reference::dropout(x.values[r * columns + c], random_word(draw, c),
                                                  args.dropout));
            }
          INFO(std::string(target.name) << ": " << rows << " x " << columns << ", way " << way);
          CHECK(y.holds(wanted, columns));
        }
}

TEST_CASE("dropout drops NaN and infinity too", "[unit][element]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    const std::vector<float> x(100, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> y(100, -1);
    DropArgs args;
    args.rows = 1;
    args.columns = 100;
    args.x = plain(x, 100);
    args.dropout.threshold = 0x80000000u;
    args.y = plain_target(y, 100);
    target.kernels->element.dropout(args);
    for (std::size_t i = 0; i < 100; ++i) {
      const bool dropped = random_word(args.dropout.draw, i) < 0x80000000u;
      CHECK((dropped ? y[i] == 0 : std::isnan(y[i])));
    }
    // Nothing is dropped at threshold 0.
    args.dropout.threshold = 0;
    target.kernels->element.dropout(args);
    for (const float value : y) CHECK(std::isnan(value));
  }
}
