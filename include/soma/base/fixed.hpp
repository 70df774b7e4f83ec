#pragma once
// Numbers in decimal, for people and for files with columns.

#include <soma/base/config.hpp>

#include <array>
#include <charconv>
#include <string>

namespace SOMA_NAMESPACE {

// `digits` digits after the point, up to 16. The point is a point in every locale.
std::string fixed(double value, int digits);

// The fewest digits that read back as the same float.
std::string float_text(float value);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/base/impl/fixed.ipp>
#endif
