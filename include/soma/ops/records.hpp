#pragma once
// Brings what functions that name a built-in operator need: where a unit has kernels of its own
// (base/config.hpp) the operators, otherwise the table.

#include <soma/base/config.hpp>

#if SOMA_WHOLE_TABLE
#include <soma/ops/built_in.hpp>
#else
#include <soma/ops/all.hpp>
#endif
