#pragma once
// Everything a unit needs to use soma, without the kernels behind it: no Highway, no xtensor. A
// context comes from make_context(), which soma.hpp has.

#include <soma/base/config.hpp>
#include <soma/base/error.hpp>
#include <soma/base/version.hpp>
#include <soma/kernels/convert.hpp>
#include <soma/kernels/random.hpp>
#include <soma/numeric/code_span.hpp>
#include <soma/numeric/codec.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/float_format.hpp>
#include <soma/numeric/formats.hpp>
#include <soma/numeric/logical_index.hpp>
#include <soma/numeric/minifloat.hpp>
#include <soma/numeric/minifloat_traits.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/numeric/scaling.hpp>
#include <soma/runtime/arena.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/runtime/host.hpp>
#include <soma/runtime/parallel.hpp>
