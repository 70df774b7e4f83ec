#pragma once
// Opt-in: the checks that every operator has to pass, for soma's own operators and for yours.
//
//   soma::testing::Report report = soma::testing::check_operator(context, "my::leaky");
//   CHECK(report.passed());  // of any test framework
//   std::cout << report;     // what was checked, what could not be, what is wrong
//
// And time_operator(context, "my::leaky"): how long its samples take. samples_of() gives those of
// any operator.
//
// For each of the operator's samples: nothing is read or written out of bounds, and every output of
// the shape rule is written; the host kernel against the reference in double; the gradient against
// central differences of the reference; inputs with gaps give the bits of inputs without; every
// floating type of the inputs works or is refused with an error; and any number of threads, tasks
// in any order and every target with fused multiply-add give the same bits. Misuse has to end in
// soma::Error.

#include <soma/interface.hpp>
#include <soma/ops/samples.hpp>
#include <soma/testing/checker.hpp>
#include <soma/testing/report.hpp>
#include <soma/testing/samples.hpp>
#include <soma/testing/timing.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::testing {

// Makes further contexts like `context`, with other threads and targets, which share its operators.
// Costs some thousand calls with small tensors.
Report check_operator(Context& context, const Operator& op, const OperatorSamples& samples);

// Checks with the operator's own samples. Without samples there is no check, and the report says
// so.
Report check_operator(Context& context, const Operator& op);
// Checks the operator of that name. Error operator.unknown.
Report check_operator(Context& context, std::string_view name);

}  // namespace SOMA_NAMESPACE::testing

#ifndef SOMA_DISPATCH
#include <soma/impl/testing.ipp>
#endif
