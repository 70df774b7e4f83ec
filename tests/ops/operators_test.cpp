// Every registered operator through the generic checks of soma/testing.hpp.

#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"

#include <string>

using namespace soma;

TEST_CASE("every operator meets its reference, its gradient and the invariances", "[unit][grad]") {
  auto context = make_context();
  std::size_t checked = 0;
  for (const Operator* op : context.operators().all()) {
    const testing::Report report = testing::check_operator(context, *op);
    INFO(to_string(report));
    CHECK(report.passed());
    if (op->has_samples()) CHECK(report.checks > 0);
    checked += report.checks;
    // Every operator with a gradient has samples that test it.
    CHECK((op->gradient == nullptr || op->has_samples()));
  }
  CHECK(checked > 5000);
}

TEST_CASE("samples are the record's own, or those of the built-in operator", "[unit]") {
  auto context = make_context({.threads = 1});
  Operator op = context.operators().at("linear");
  REQUIRE(op.built_in_samples);
  CHECK(!testing::samples_of(op).samples.empty());
  op.samples = [] { return OperatorSamples{{{.name = "own", .inputs = {}}}}; };
  CHECK(testing::samples_of(op).samples.at(0).name == "own");
  op.samples = nullptr;
  op.built_in_samples = false;  // a host's operator may have any name
  CHECK(testing::samples_of(op).samples.empty());
}
