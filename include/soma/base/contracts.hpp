#pragma once
// Contracts: conditions that no caller can break. A failed contract is a bug in soma and ends the
// program. Mistakes of callers throw Error.

#include <soma/base/config.hpp>

#include <gsl/assert>

#define SOMA_EXPECTS(condition) Expects(condition)
