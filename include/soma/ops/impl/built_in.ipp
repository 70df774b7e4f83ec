#pragma once
// The functions of built_in.hpp.

#include <soma/ops/built_in.hpp>

#include <soma/kernels/element/args.hpp>
#include <soma/ops/operator.hpp>

#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE {

SOMA_INLINE const Operator& BuiltInOperators::of(Unary function) const {
  return *unary[static_cast<std::size_t>(function)];
}

SOMA_INLINE const Operator& BuiltInOperators::of(Binary function) const {
  return *binary[static_cast<std::size_t>(function)];
}

}  // namespace SOMA_NAMESPACE
