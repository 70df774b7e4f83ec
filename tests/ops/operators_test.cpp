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
    if (op->samples != nullptr) CHECK(report.checks > 0);
    checked += report.checks;
    // An operator with a gradient has samples that test the gradient.
    CHECK((op->gradient == nullptr || op->samples != nullptr));
  }
  CHECK(checked > 5000);
}
