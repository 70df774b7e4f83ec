// Include and go: make_context() with the kernels of this unit's flags. See
// kernels/static_table-inl.hpp.

#pragma once

#include <soma/kernels/static_table-inl.hpp>
#include <soma/ops/all.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/thread_pool.hpp>

namespace SOMA_NAMESPACE {
inline namespace HWY_CONCAT(static_, HWY_NAMESPACE) {

  // A context with this unit's kernels. It is slow if the flags allow only the baseline: compile
  // with -march=native, or link soma::dispatch. Errors as of Context's constructor.
  [[maybe_unused]] static inline Context make_context(const ContextOptions& options = {}) {
    TargetList list = static_targets();
    list.operators = &built_in_operators;
    list.make_pool = make_thread_pool;
    return Context(options, list);
  }

}  // namespace )
}  // namespace SOMA_NAMESPACE
