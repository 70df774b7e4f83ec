#pragma once
// Include and go: the whole interface and make_context().
//
// A unit that includes this header parses kernels and operators, and compiles those that it uses,
// for the target that its flags allow. (It compiles all of them if it asks for operators by name,
// Context::operators(), or runs them on a NeuronCore.) With soma::dispatch, which defines
// SOMA_DISPATCH, the library has them for every target and a unit parses declarations only.

#include <soma/interface.hpp>
#include <soma/tensor/print.hpp>

#ifdef SOMA_DISPATCH
#include <soma/dispatch/context.hpp>
#else
#include <soma/static_context-inl.hpp>
#endif
