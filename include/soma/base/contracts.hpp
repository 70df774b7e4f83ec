#pragma once
// Contracts for what no caller can break: a failed one is a bug in soma and terminates. Caller
// mistakes throw Error.

#include <soma/base/config.hpp>

#include <gsl/assert>

#define SOMA_EXPECTS(condition) Expects(condition)
