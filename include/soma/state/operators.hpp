#pragma once
// The custom operators that a checkpoint needs. The checkpoint stores their names, not their code:
// a context that lacks one of them cannot resume from it, and the error names the operator.

#include <soma/base/record.hpp>
#include <soma/ops/registry.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// Sets "operators" to the names of the custom operators that have run in the context (for any
// model), separated by spaces. Sets nothing if there are none.
void set_operators(Record& record, Context& context);

// Error checkpoint.operator: the context lacks an operator that the record names.
void check_operators(const Record& record, Context& context);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/state/impl/operators.ipp>
#endif
