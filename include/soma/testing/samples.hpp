#pragma once
// The samples of an operator, and by name those of the built-in operators, which stand here and not
// in their records: so only programs that check operators have them.

#include <soma/ops/operator.hpp>
#include <soma/ops/samples.hpp>

namespace SOMA_NAMESPACE::testing {

// The record's own samples, or those of the built-in operator of its name
// (Operator::built_in_samples). Empty if there are none.
OperatorSamples samples_of(const Operator& op);

}  // namespace SOMA_NAMESPACE::testing

#ifndef SOMA_DISPATCH
#include <soma/testing/impl/samples.ipp>
#endif
