#pragma once
// Include and go: the whole interface (api.hpp) and make_context().
//
// A unit that includes this header parses the kernels. Only a unit that calls make_context()
// compiles them, for the target that its flags allow. With soma::dispatch (which defines
// SOMA_DISPATCH) the kernels are compiled once for every target and this header is as cheap as
// api.hpp.

#include <soma/api.hpp>
#include <soma/tensor/print.hpp>

#ifdef SOMA_DISPATCH
#include <soma/dispatch/context.hpp>
#else
#include <soma/static_context-inl.hpp>
#endif
