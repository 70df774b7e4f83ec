#pragma once
// make_context() of soma::dispatch: the program has kernels for every target, and each call chooses
// the best target of the CPU.

#include <soma/runtime/context.hpp>

namespace SOMA_NAMESPACE {

// Errors of Context's constructor; context.unknown_target lists the targets that both this program
// and this CPU have.
Context make_context(const ContextOptions& options = {});

}  // namespace SOMA_NAMESPACE
