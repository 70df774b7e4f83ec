// States that were cut into parts, put together again.

#include <soma/soma.hpp>
#include <soma/state/join_parts.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

TEST_CASE("rows follow each other, parts without any add none", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto rows = [&](std::vector<float> values) {
    const std::size_t count = values.size() / 2;
    return Tensor::from(context, std::span<const float>(values), Shape{count, 2});
  };
  std::vector<StateDict> parts(4);
  parts[0].set("w", rows({1, 2, 3, 4}));
  parts[1].set("w", rows({}));
  parts[2].set("w", rows({5, 6}));
  parts[3].set("w", rows({}));
  for (StateDict& part : parts) part.set("steps", Tensor::scalar(context, std::int64_t{9}));
  const StateDict whole = join_parts(context, parts);
  REQUIRE(whole.size() == 2);
  CHECK(whole.at("w").shape() == Shape{3, 2});
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(whole.at("w").span<float>()[i] == static_cast<float>(i + 1));
  CHECK(whole.at("steps").item<std::int64_t>() == 9);
  parts.resize(1);
  CHECK(join_parts(context, parts).at("w").shape() == Shape{2, 2});
}

TEST_CASE("parts that do not belong together are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto rows = [&](std::size_t count) { return Tensor::zeros(context, Shape{count, 3}); };
  const auto refused = [&](const StateDict& one, const StateDict& other) {
    const StateDict parts[] = {one, other};
    return message_of([&] { join_parts(context, parts); });
  };
  StateDict one, other;
  one.set("w.first_moment", rows(2));
  one.set("w.steps", Tensor::scalar(context, std::int64_t{4}));
  other.set("w.first_moment", rows(1));
  CHECK(refused(one, other) ==
        "join_parts: number of parts with \"w.steps\" is 1, wanted 2, as of other names "
        "[checkpoint.parts]");
  other.set("w.steps", Tensor::scalar(context, std::int64_t{5}));
  CHECK_THAT(refused(one, other), contains("\"w.steps\" of part 2 is "));
  CHECK_THAT(refused(one, other), contains(" of another value"));
  other.erase("w.steps");
  other.set("v.steps", Tensor::scalar(context, std::int64_t{4}));
  CHECK_THAT(refused(one, other), contains("number of parts with \"w.steps\" is 1"));
  other.erase("v.steps");
  other.set("w.steps", Tensor::scalar(context, std::int64_t{4}));
  CHECK(refused(one, other) == "no error");
  for (const Tensor& wrong : {Tensor::zeros(context, Shape{1, 4}), Tensor::zeros(context, Shape{3}),
                              Tensor::zeros(context, Shape{1, 3}, DType::fp16)}) {
    other.erase("w.first_moment");
    other.set("w.first_moment", wrong);
    CHECK_THAT(refused(one, other), contains("\"w.first_moment\" of part 2 is "));
    CHECK_THAT(refused(one, other), contains("[checkpoint.parts]"));
  }
}

TEST_CASE("parts may have names of their own, each as many parts", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto rows = [&](std::size_t count, float value) {
    return Tensor::full(context, Shape{count, 3}, value);
  };
  // Two stages of two ranks; the second has no row of "b" on its second rank.
  std::vector<StateDict> parts(5);
  parts[0].set("a", rows(2, 1));
  parts[1].set("a", rows(1, 2));
  parts[2].set("b", rows(3, 3));
  parts[3].set("b", rows(0, 4));
  const StateDict whole = join_parts(context, parts);  // the fifth has nothing
  REQUIRE(whole.size() == 2);
  CHECK(whole.at("a").shape() == Shape{3, 3});
  CHECK(whole.at("a").span<float>()[6] == 2);
  CHECK(whole.at("b").raw() == parts[2].at("b").raw());  // not copied
  CHECK(join_parts(context, std::span<const StateDict>()).empty());
  parts[4].set("c", rows(1, 5));
  CHECK_THAT(message_of([&] { join_parts(context, parts); }),
             contains("number of parts with \"c\" is 1, wanted 2"));
  parts[4].erase("c");
  parts[4].set("b", rows(1, 5));
  CHECK_THAT(message_of([&] { join_parts(context, parts); }),
             contains("number of parts with \"b\" is 3, wanted 2"));
  parts[4].erase("b");
  parts[4].set("a", rows(1, 5));
  CHECK_THAT(message_of([&] { join_parts(context, parts); }),
             contains("\"a\" of part 3 is missing"));
}
