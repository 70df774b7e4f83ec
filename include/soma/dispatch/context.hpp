#pragma once
// make_context() of soma::dispatch: kernels for every target, the best that the CPU has chosen when
// it is called.

#include <soma/runtime/context.hpp>

namespace soma {

// Errors as Context's constructor; context.unknown_target lists the targets that this program and
// this CPU have.
Context make_context(const ContextOptions& options = {});

}  // namespace soma
