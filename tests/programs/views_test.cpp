// The programs that only move elements: bit for bit what the host moves, of any type and size.

#include <soma/neuroncore.hpp>
#include <soma/ops/all.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;

namespace {

// Elements with any bits, NaN among them.
Tensor any_bits(Context& context, const Shape& shape, DType dtype, std::uint32_t stream) {
  const Tensor result = Tensor::empty(context, shape, dtype);
  for (std::size_t i = 0; i < result.bytes(); ++i)
    result.mutable_raw()[i] = static_cast<std::byte>(random_word({.seed = 9, .stream = stream}, i));
  return result;
}

// The bits of compute(context) on the host and on a core, whose transfers end late.
template <class Compute>
void expect_same(const Compute& compute) {
  auto host = make_context({.threads = 1});
  const std::vector<std::byte> wanted = bits(host, compute(host));
  for (const std::uint64_t stress : {std::uint64_t{0}, std::uint64_t{3}}) {
    auto context = make_context({.threads = 2});
    const soma_test::OnDevice on(context, soma_test::stressed(stress));
    CHECK((bits(context, compute(context)) == wanted));
  }
}

}  // namespace

TEST_CASE("concatenation on the device moves bits", "[unit]") {
  struct Case {
    std::vector<Shape> shapes;
    std::size_t dimension;
  };
  const Case cases[] = {
      {{Shape{3, 9001}, Shape{3, 17}, Shape{3, 0}}, 1},         // long rows and short ones
      {{Shape{300, 5}, Shape{300, 2}}, 1},                      // more rows than partitions
      {{Shape{130, 2, 1025}, Shape{130, 1, 1025}}, 1},          // long rows on many partitions
      {{Shape{2, 3, 1, 2, 3, 2}, Shape{2, 3, 4, 2, 3, 2}}, 2},  // a high rank
      {{Shape{300000}, Shape{1}}, 0},
  };
  for (const DType dtype :
       {DType::bf16, DType::fp32, DType::int64, DType::fp8_e4m3fn, DType::boolean})
    for (const Case& c : cases) {
      INFO(to_string(dtype) << " " << to_string(c.shapes[0]));
      for (const bool turned : {false, true})
        expect_same([&](Context& context) {
          std::vector<Tensor> inputs;
          for (const Shape& shape : c.shapes) {
            const auto stream = static_cast<std::uint32_t>(inputs.size());
            if (!turned || shape.rank() != 2) {
              inputs.push_back(any_bits(context, shape, dtype, stream));
            } else {  // rows and columns change places: elements that are not side by side
              inputs.push_back(
                  any_bits(context, Shape{shape[1], shape[0]}, dtype, stream).transpose(0, 1));
            }
          }
          return run(context, ops::concatenate, c.dimension, inputs)[0];
        });
    }
}

TEST_CASE("the first row of each sequence on the device", "[unit]") {
  for (const std::size_t columns : {std::size_t{1}, std::size_t{4100}})
    for (const std::size_t sequences : {std::size_t{1}, std::size_t{300}})
      expect_same([&](Context& context) {
        std::vector<std::size_t> lengths;
        std::size_t rows = 0;
        for (std::size_t i = 0; i < sequences; ++i) rows += lengths.emplace_back(1 + i % 3);
        return run(context, ops::sequence_first, {},
                   {any_bits(context, Shape{rows, columns}, DType::bf16, 1)},
                   Sequences::from_lengths(context, lengths))[0];
      });
}

TEST_CASE("an empty sequence has no first row on the device either", "[unit]") {
  auto context = make_context({.threads = 1});
  auto core = neuroncore::make_core(context, neuroncore::trn1());
  auto device = neuroncore::make_device(core);
  context.set_device(&device);
  const std::vector<std::size_t> lengths = {1, 0, 2};
  const Tensor x = Tensor::zeros(context, Shape{3, 4});
  CHECK_THROWS_WITH(
      run(context, ops::sequence_first, {}, {x}, Sequences::from_lengths(context, lengths)),
      Catch::Contains("sequence 1"));
  context.set_device(nullptr);
}
