// Shapes: sizes, row-major strides, broadcasting, and products that do not fit.

#include <soma/tensor/shape.hpp>
#include <soma/tensor/view.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <csignal>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace soma;
using soma_test::message_of;

namespace {

constexpr std::size_t half = std::size_t{1} << 32;

std::string broadcasted(const Shape& a, const Shape& b) {
  return to_string(broadcast(a, b, "test"));
}

}  // namespace

TEST_CASE("a shape knows its sizes", "[unit][tensor]") {
  const Shape scalar;
  CHECK(scalar.rank() == 0);
  CHECK(scalar.elements() == 1);
  CHECK(scalar.rows() == 1);
  CHECK(scalar.columns() == 1);
  CHECK(to_string(scalar) == "[]");

  const Shape vector{5};
  CHECK(vector.rows() == 1);
  CHECK(vector.columns() == 5);

  const Shape shape{2, 3, 4};
  CHECK(shape.rank() == 3);
  CHECK(shape[1] == 3);
  CHECK(shape.elements() == 24);
  CHECK(shape.rows() == 6);
  CHECK(shape.columns() == 4);
  CHECK(to_string(shape) == "[2, 3, 4]");
  CHECK(shape.strides() == Strides{12, 4, 1});
  CHECK(std::vector<std::size_t>(shape.begin(), shape.end()) == std::vector<std::size_t>{2, 3, 4});

  const Shape eight{1, 2, 1, 2, 1, 2, 1, 2};
  CHECK(eight.elements() == 16);
  CHECK(eight.strides() == Strides{16, 8, 8, 4, 4, 2, 2, 1});
}

TEST_CASE("an empty dimension leaves strides as if it had one element", "[unit][tensor]") {
  const Shape shape{2, 0, 3};
  CHECK(shape.elements() == 0);
  CHECK(shape.rows() == 0);
  CHECK(shape.columns() == 3);
  CHECK(shape.strides() == Strides{3, 3, 1});
}

TEST_CASE("shapes are equal by rank and sizes", "[unit][tensor]") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2} != Shape{2, 1});
  CHECK(Shape{} != Shape{0});
  CHECK(Shape{3, 2, 5}.without(2) == Shape{3, 2});  // nothing of the third size is left
}

TEST_CASE("shapes with one dimension changed", "[unit][tensor]") {
  const Shape shape{2, 3, 4};
  CHECK(shape.with(1, 7) == Shape{2, 7, 4});
  CHECK(shape.without(0) == Shape{3, 4});
  CHECK(shape.without(2) == Shape{2, 3});
  CHECK(shape.exchanged(0, 2) == Shape{4, 3, 2});
  CHECK(Shape{5}.without(0) == Shape{});
}

TEST_CASE("ranks and products that do not fit are refused", "[unit][tensor]") {
  CHECK(message_of([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }) ==
        "Shape: rank is 9, wanted 0 to 8 [tensor.rank]");
  const std::vector<std::size_t> many(1000, 2);
  CHECK(message_of([&] { Shape{std::span<const std::size_t>(many)}; }) ==
        "Shape: rank is 1000, wanted 0 to 8 [tensor.rank]");
  CHECK(message_of([] {
          Shape{half, half};
        }) ==
        "Shape: size is 4294967296 * 4294967296, wanted a product below 2^64 "
        "[base.size_overflow]");
  CHECK(Shape{half, half - 1, 1}.elements() == half * (half - 1));
  // Strides are made of the other sizes even where an empty one makes the product 0.
  CHECK(message_of([] { Shape{0, half, half}; }).find("[base.size_overflow]") != std::string::npos);
  CHECK(message_of([] {
          Shape{half, 2}.with(1, half);
        }).find("[base.size_overflow]") != std::string::npos);
}

TEST_CASE("broadcasting is NumPy's", "[unit][tensor]") {
  // Values of numpy.broadcast_shapes.
  CHECK(broadcasted({}, {}) == "[]");
  CHECK(broadcasted({}, {3, 2}) == "[3, 2]");
  CHECK(broadcasted({3, 2}, {}) == "[3, 2]");
  CHECK(broadcasted({1}, {7}) == "[7]");
  CHECK(broadcasted({5, 1, 3}, {4, 3}) == "[5, 4, 3]");
  CHECK(broadcasted({4, 1}, {3}) == "[4, 3]");
  CHECK(broadcasted({1, 1}, {2, 1, 5}) == "[2, 1, 5]");
  CHECK(broadcasted({8, 1, 6, 1}, {7, 1, 5}) == "[8, 7, 6, 5]");
  CHECK(broadcasted({0}, {1}) == "[0]");
  CHECK(broadcasted({1}, {0}) == "[0]");
  CHECK(broadcasted({2, 0}, {2, 1}) == "[2, 0]");
  CHECK(broadcasted({0}, {0}) == "[0]");
  CHECK(broadcasted({1, 2, 1, 2, 1, 2, 1, 2}, {1, 2, 1, 2, 1, 2, 1}) == "[1, 2, 2, 2, 2, 2, 2, 2]");

  CHECK(message_of([] {
          broadcast({2, 3}, {4}, "add");
        }) == "add: shape is [4], wanted a shape that broadcasts with [2, 3] [tensor.broadcast]");
  CHECK(message_of([] { broadcast({0}, {2}, "add"); }).find("[tensor.broadcast]") !=
        std::string::npos);
  CHECK(message_of([] {
          broadcast({half, 1}, {1, half}, "add");
        }).find("[base.size_overflow]") != std::string::npos);
}

TEST_CASE("a view reads by index along its strides", "[unit][tensor]") {
  std::vector<int> data{0, 1, 2, 3, 4, 5};
  const View<int> rows{data.data(), Shape{2, 3}, Shape{2, 3}.strides()};
  CHECK(rows(1, 2) == 5);
  const View<const int> columns{data.data(), Shape{3, 2}, Strides{1, 3}};
  CHECK(columns(2, 1) == 5);
  CHECK(columns(2, 0) == 2);
  rows(0, 1) = 9;
  CHECK(columns(1, 0) == 9);
  const View<const int> scalar{data.data() + 3, Shape{}, Strides{}};
  CHECK(scalar() == 3);
}

TEST_CASE("a wrong index into a view ends the program", "[unit][tensor]") {
  const auto dies = [](auto&& action) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);  // the test framework's handler would report it
      action();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return static_cast<bool>(WIFSIGNALED(status));
  };
  std::vector<int> data(6);
  const View<int> view{data.data(), Shape{2, 3}, Shape{2, 3}.strides()};
  CHECK_FALSE(dies([&] { view(1, 2) = 1; }));
  CHECK(dies([&] { view(1, 3) = 1; }));
  CHECK(dies([&] { view(2, 0) = 1; }));
  CHECK(dies([&] { view(-1, 0) = 1; }));
  CHECK(dies([&] { view(1) = 1; }));
  CHECK(dies([&] { view(0, 0, 0) = 1; }));
}

TEST_CASE("a dimension beyond the rank is refused", "[unit][tensor]") {
  const Shape shape{2, 3};
  for (const std::size_t beyond : {std::size_t{2}, max_rank, max_rank + 100}) {
    const std::string wanted = "Shape: dimension is " + std::to_string(beyond) +
                               ", wanted below the rank of [2, 3] [tensor.index]";
    CHECK(message_of([&] { static_cast<void>(shape[beyond]); }) == wanted);
    CHECK(message_of([&] { static_cast<void>(shape.with(beyond, 1)); }) == wanted);
    CHECK(message_of([&] { static_cast<void>(shape.without(beyond)); }) == wanted);
    CHECK(message_of([&] { static_cast<void>(shape.exchanged(0, beyond)); }) == wanted);
  }
  static_assert(Shape().rank() == 0);
}
