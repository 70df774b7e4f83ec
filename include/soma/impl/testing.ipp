#pragma once
// The functions of testing.hpp.

#include <soma/testing.hpp>

#include <soma/interface.hpp>
#include <soma/ops/samples.hpp>
#include <soma/testing/checker.hpp>
#include <soma/testing/report.hpp>
#include <soma/testing/samples.hpp>
#include <soma/testing/timing.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::testing {

SOMA_INLINE Report check_operator(Context& context, const Operator& op,
                                  const OperatorSamples& samples) {
  Report report{.name = std::string(op.name), .by_topic = {}, .not_checked = {}, .failures = {}};
  if (op.gradient == nullptr) report.not_checked.push_back("gradients: the operator has none");
  if (samples.reference == nullptr)
    report.not_checked.push_back(
        "results: the samples have no reference; the host kernel with plain fp32 inputs stood in "
        "for it");
  if (context.targets().targets.size() == 1)
    report.not_checked.push_back("other instruction sets: the program has " +
                                 std::string(context.target().name) + " only");
  Context one({.threads = 1, .math = context.math(), .target = context.target().name},
              context.targets());
  one.operators().share(context.operators());
  soma::share_sparse(context, one);
  detail::Checker checker(one, context, op, samples, report);
  for (const Sample& sample : samples.samples) checker.check(sample);
  return report;
}

SOMA_INLINE Report check_operator(Context& context, const Operator& op) {
  if (op.has_samples()) return check_operator(context, op, samples_of(op));
  Report report{.name = std::string(op.name), .by_topic = {}, .not_checked = {}, .failures = {}};
  report.not_checked.push_back("anything: the operator has no samples");
  return report;
}

SOMA_INLINE Report check_operator(Context& context, std::string_view name) {
  return check_operator(context, context.operators().at(name));
}

}  // namespace SOMA_NAMESPACE::testing
