// The rules for kernels of GPSIMD processors in the hardware's documents: each rule with a kernel
// that breaks it, and its whole message.

#include <soma/processors.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "plugin/kernels.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::numbers;
using soma_test::plugins;
using soma_test::run_named;
using soma_test::tensor;
using soma_test::values;
using soma_test::Which;

TEST_CASE("what several processors must not do is seen", "[unit][processors]") {
  auto context = make_context({.threads = 2});
  load_operators(context, plugins + "libmany.so");
  const auto message = [&](double which, std::size_t count) {
    return message_of(
        [&] { run_named(context, "many::wrong", {tensor(context, {count})}, Which{which}); });
  };
  CHECK(message(0, 9) ==
        "many::wrong: processor 0 is without a call of get_dst_tensor, wanted the output written "
        "there: what a multicore kernel returns is ignored [neuroncore.undefined]");
  CHECK(message(1, 1025) ==
        "many::wrong: processor 7, input 0 is elements 903 to 1031 of [1025] fp32 read by a TCM "
        "accessor, wanted elements of the tensor [neuroncore.undefined]");
  CHECK(message(1, 9) ==
        "many::wrong: processor 7, input 0 is elements 14 to 15 of [9] fp32 read by a TCM "
        "accessor, wanted elements of the tensor [neuroncore.undefined]");
  CHECK(message(2, 5) ==
        "many::wrong: processor 1, output is element 0 of [5] fp32, which it writes and processor "
        "0 writes, wanted elements that no other processor touches where one writes them "
        "[neuroncore.race]");
  CHECK(message(3, 1025) ==
        "many::wrong: output is element 1024 of [1025] fp32, which is never written, wanted all "
        "elements written [neuroncore.undefined]");
  CHECK(message(3, 1024) == "no error");
  CHECK(message(4, 9) ==
        "many::wrong: processor 0, input 0 is used by an element accessor in a multicore library, "
        "wanted TCM accessors [neuroncore.undefined]");
  CHECK(message(5, 9) ==
        "many::wrong: processor 0, input 0 is used by a stream in a multicore library, wanted TCM "
        "accessors [neuroncore.undefined]");
  CHECK(message(6, 16) ==
        "many::wrong: processor 3, output is element 6 of [16] fp32, which it writes and processor "
        "2 reads, wanted elements that no other processor touches where one writes them "
        "[neuroncore.race]");
}

TEST_CASE("each rule of one processor has its error", "[unit][processors]") {
  auto context = make_context({.threads = 1});
  load_operators(context, plugins + "libwrong.so");
  const Tensor x = tensor(context, {2, 3});
  const auto expect = [&](double which, const std::string& rest) {
    CHECK(message_of([&] { run_named(context, "wrong::wrong", {x}, Which{which}); }) ==
          "wrong::wrong: " + rest);
  };
  const std::string broken = " [neuroncore.rule_broken]", undefined = " [neuroncore.undefined]";
  expect(0, "processor 0, input 0 is an element accessor of int32, wanted the type of [2, 3] fp32" +
                broken);
  expect(1,
         "processor 0, input 0 is an element accessor of rank 3, wanted the rank of [2, 3] fp32" +
             broken);
  expect(2,
         "processor 0, input 0 is index 3 of dimension 1 of [2, 3] fp32, wanted an index within "
         "the dimension" +
             undefined);
  expect(3,
         "processor 0, input 0 is index -1 of dimension 0 of [2, 3] fp32, wanted an index within "
         "the dimension" +
             undefined);
  expect(4, "processor 0, result is [2, 2] fp32, wanted [2, 3] fp32, as the shape function says" +
                broken);
  expect(5, "processor 0, result is [2, 3] int32, wanted [2, 3] fp32, as the shape function says" +
                broken);
  expect(6,
         "processor 0, add is [3] fp32 beside [2, 3] fp32, wanted tensors of equal sizes: the "
         "function does not broadcast" +
             broken);
  expect(7, "processor 0, bitwise_not is of [2, 3] fp32, wanted an integer type" + broken);
  expect(8, "processor 0, exp is into [2] fp32, wanted [2, 3] fp32, as the operands are" + broken);
  expect(9,
         "processor 0, input 0 is read by a stream past element 6 of [2, 3] fp32, wanted a "
         "stream that ends with the tensor" +
             undefined);
  expect(10,
         "processor 0, tensor 0 of the kernel is used through a stream after it was closed, "
         "wanted an open stream" +
             undefined);
  expect(11,
         "processor 0, input 0 is copied to or from bytes 0 to 11 of a block of 8, wanted bytes "
         "of a block of the pool" +
             undefined);
  expect(12,
         "processor 0, input 0 is elements 5 to 6 of [2, 3] fp32 read by a TCM accessor, wanted "
         "elements of the tensor" +
             undefined);
  expect(13,
         "processor 0, input 0 is copied to or from a pointer that tcm_malloc did not return, "
         "wanted bytes of a block of the pool" +
             undefined);
  expect(14,
         "processor 0 is tcm_free of a pointer that was freed before, wanted a block of the "
         "pool, freed once" +
             undefined);
  expect(15,
         "processor 0 is tcm_free of a pointer that tcm_malloc did not return, wanted a block "
         "of the pool, freed once" +
             undefined);
  const std::string coherent =
      ", wanted several reading streams, or one writing stream, and no element accessor beside "
      "them, unless the tensor's coherence policy allows it" +
      undefined;
  expect(16,
         "processor 0, tensor 0 of the kernel is read by a stream while another writes" + coherent);
  expect(17,
         "processor 0, tensor 0 of the kernel is touched by an element accessor while a stream "
         "is open" +
             coherent);
  expect(18,
         "processor 0, a new tensor is [2] int64, wanted one of fp32 bf16 fp16 int32 int8 int16 "
         "uint8" +
             broken);
  expect(19, "processor 0, input 0 is element 1 of [2, 3] fp32, written, wanted inputs only read" +
                 undefined);
  const std::string read_only =
      "processor 0, input 0 is written, wanted a tensor that the operator made, or its output: "
      "inputs are only read" +
      undefined;
  expect(20, read_only);
  expect(21, read_only);
  expect(22,
         "output is element 0 of [2, 3] fp32, which is never written, wanted all elements "
         "written" +
             undefined);
  expect(23,
         "processor 0, a new tensor is [1, 1, 1, 1, 65536] fp32, wanted up to 4 dimensions of "
         "at most 4294967295 elements, or up to 8 of at most 65535" +
             broken);
  expect(24,
         "processor 0, exp is of [2] int32, wanted a floating type: results for integers are not "
         "published [neuroncore.undisclosed]");
  expect(25,
         "processor 0, result is no tensor, wanted one as the shape function makes it" + broken);
  expect(26,
         "processor 0, size is a dimension beyond the rank of the tensor, wanted a dimension of "
         "the tensor" +
             broken);
  expect(27,
         "processor 0, mul is [2, 3] int32 beside [2, 3] fp32, wanted tensors of equal types: the "
         "function does not promote types" +
             broken);
  expect(28, "processor 0, a new tensor is without a type, wanted a dtype" + broken);
  expect(29,
         "output is element 1 of [2, 3] fp32, which is never written, wanted all elements "
         "written" +
             undefined);
  expect(30,
         "processor 0 is byte 0 behind a block of 8 bytes, written, wanted writes within blocks "
         "of tcm_malloc" +
             undefined);
  // The input was not changed, by none of them.
  CHECK(values(context, x) == numbers(6));
  CHECK(id_of([&] { run_named(context, "wrong::wrong", {x}); }) == "operator.attributes");
  CHECK(id_of([&] {
          run_named(context, "wrong::wrong", {Tensor::zeros(context, {1, 1, 1, 1, 65536})},
                    Which{99});
        }) == "neuroncore.rule_broken");
}

TEST_CASE("a shape function knows sizes only", "[unit][processors]") {
  auto context = make_context({.threads = 1});
  load_operators(context, plugins + "libwrong.so");
  const Tensor x = tensor(context, {2, 3});
  const auto expect = [&](double which, const std::string& rest) {
    CHECK(message_of([&] { run_named(context, "wrong::sized", {x}, Which{which}); }) ==
          "wrong::sized: shape function" + rest);
  };
  const std::string sizes =
      ", wanted up to 4 dimensions of at most 4294967295 elements, or up to 8 of at most 65535 "
      "[neuroncore.rule_broken]";
  const std::string elements =
      ", input 0 is read or written, wanted sizes and types only: tensors of a shape function have "
      "no elements [neuroncore.rule_broken]";
  expect(0, ", a new tensor is [51539607552] fp32" + sizes);
  expect(1, ", a new tensor is [1, 1, 1, 1, 65536] fp32" + sizes);
  expect(2, elements);
  expect(3, elements);
  expect(4,
         ", a new tensor is [2, 3] int64, wanted one of fp32 bf16 fp16 int32 int8 int16 uint8 "
         "[neuroncore.rule_broken]");
  expect(5,
         " is get_dst_tensor, wanted a kernel: a shape function has no output yet "
         "[neuroncore.rule_broken]");
  expect(6, " is status 2: \"no such shape\", wanted status 0 [plugin.failed]");
  expect(7, ", a new tensor is of rank 9, wanted at most 8 [neuroncore.rule_broken]");
  expect(8, " is without a result, wanted a tensor [neuroncore.rule_broken]");
  CHECK(values(context, run_named(context, "wrong::sized", {x}, Which{99})) == numbers(6));
}

TEST_CASE("one library of kernels in a context", "[unit][processors]") {
  auto context = make_context({.threads = 1});
  load_operators(context, plugins + "libsingle.so");
  CHECK(message_of([&] { load_operators(context, plugins + "libmany.so"); }) ==
        "load_operators: library is \"" + plugins + "libmany.so\" beside " + plugins +
            "libsingle.so, wanted one library of kernels in a model [neuroncore.rule_broken]");
  CHECK(id_of([&] { load_operators(context, plugins + "libsingle.so"); }) ==
        "operator.duplicate_name");
  // Another context has another, which defines the same names.
  auto other = make_context({.threads = 1});
  load_operators(other, plugins + "libwrong.so");
  CHECK(id_of([&] { processor_report(*other.operators().all().front()); }) == "operator.unknown");
}
