#pragma once
// The functions of owner.hpp.

#include <soma/tensor/owner.hpp>

#include <type_traits>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE Owner& Owner::operator=(Owner&& other) noexcept {
  std::swap(keeper_, other.keeper_);
  std::swap(end_, other.end_);
  return *this;
}

SOMA_INLINE Owner::~Owner() {
  if (keeper_ != nullptr) end_(keeper_);
}

}  // namespace SOMA_NAMESPACE
