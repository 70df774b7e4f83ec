#pragma once
// The interface to compute and learn with soma, without the kernels behind it: no Highway, no
// xtensor. make_context() (soma.hpp) makes a context; the trainer, which runs whole trainings, is
// in train.hpp.
//
// Without soma::dispatch, units that include this header need one unit with whole.hpp, which
// compiles all kernels and operators for them.

#ifndef SOMA_DISPATCH
#if defined(SOMA_NAMESPACE) && !SOMA_WHOLE_TABLE
#error "soma/api.hpp stands behind another header of soma, which gave this unit kernels of its own."
#error "Include soma/api.hpp first, or leave it out: soma/soma.hpp has all of it."
#else
#undef SOMA_WHOLE_TABLE
#define SOMA_WHOLE_TABLE 1
#endif
#endif

#include <soma/interface.hpp>
