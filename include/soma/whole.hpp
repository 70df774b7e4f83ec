#pragma once
// soma.hpp for the one unit of a header-only program that compiles all kernels and operators:
// contexts that it makes serve units that include api.hpp, which compile none.

#include <soma/api.hpp>
#include <soma/soma.hpp>
