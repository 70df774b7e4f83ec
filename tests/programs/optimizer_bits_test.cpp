// These tests compare the bits of optimizer steps: a program stores the host's bits where both
// compute the same numbers, and neither threads nor the time of transfers changes a bit.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "programs/optimizer_steps.hpp"
#include "support/table.hpp"

#include <cstdint>

using namespace soma;
using namespace soma_test;

namespace {

State on_host(const StepCase& c) {
  auto context = make_context({.threads = 1});
  const Problem problem = make_problem(context, c, c.sparse);
  run_step(context, c, problem);
  return state_of(problem);
}

}  // namespace

static void stored_bits(Table table) {
  for (const Kind kind : kinds)
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp8_e4m3})
      for (const Rounding& rounding :
           {Rounding::nearest_even, Rounding::stochastic, Rounding{RoundingMode::stochastic, 32},
            Rounding{.mode = RoundingMode::stochastic, .draws = DrawMapping::ars}})
        for (const Shape& shape :
             {Shape{300}, table == Table::whole ? Shape{131, 2057} : Shape{131, 33},
              Shape{3, 4, 5}})
          for (const bool sparse : {false, true}) {
            if (rounding.draws == DrawMapping::ars && dtype != DType::bf16) continue;
            StepCase c{.kind = kind,
                       .shape = shape,
                       .weight = dtype,
                       .state = dtype,
                       .weight_rounding = rounding,
                       .state_rounding = rounding,
                       .sparse = sparse,
                       .numbers = Numbers::exact};
            INFO(describe(c));
            // Without a gradient the root is not a power of two.
            const State host = on_host(c), device = on_device(c);
            if (!sparse || kind == Kind::sgd) CHECK((device[0] == host[0]));
            CHECK((device[1] == host[1]));
            if (kind == Kind::sgd) continue;
            c.numbers = Numbers::moments;
            const State other = on_device(c);
            const State wanted = on_host(c);
            CHECK((other[1] == wanted[1]));
            CHECK((other[2] == wanted[2]));
          }
}

TEST_CASE("what a step stores is rounded to the host's bits", "[unit]") {
  stored_bits(Table::part);
}
TEST_CASE("what a step stores is rounded to the host's bits: all", "[slow]") {
  stored_bits(Table::whole);
}

static void step_invariances(Table table) {
  for (const Kind kind : kinds)
    for (const Rounding& rounding : {Rounding::nearest_even, Rounding::stochastic})
      for (const Shape& shape :
           {table == Table::whole ? Shape{700, 400} : Shape{300, 40}, Shape{3, 2100}}) {
        const StepCase c{.kind = kind,
                         .shape = shape,
                         .weight = DType::bf16,
                         .state = DType::bf16,
                         .weight_rounding = rounding,
                         .state_rounding = rounding,
                         .sparse = true};
        INFO(describe(c));
        const State plain = on_device(c);
        for (const int threads : entries(table, {7}, {2, 7}))
          CHECK((plain == on_device(c, {.threads = threads})));
        for (std::uint64_t stress = 1; stress <= (table == Table::whole ? 3 : 1); ++stress)
          CHECK((plain == on_device(c, {.stress = stress})));
        // LAMB adds its squares in the order of its tiles, which rows change.
        if (kind != Kind::lamb || rounding.mode == RoundingMode::stochastic)
          CHECK((plain == on_device(c, {.sparse_as_dense = true})));
      }
}

TEST_CASE("nothing that must not changes the bits of an optimizer step", "[unit][invariance]") {
  step_invariances(Table::part);
}
TEST_CASE("nothing that must not changes the bits of an optimizer step: all",
          "[slow][invariance]") {
  step_invariances(Table::whole);
}
