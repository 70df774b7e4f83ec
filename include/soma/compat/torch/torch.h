#pragma once
// The tensors of custom operators, under the names that their sources use. The functions and classes
// are those of the vendor's API reference of custom C++ operators; see docs/custom_operators.md.

#include <soma/compat/functions.hpp>
#include <soma/compat/library.hpp>
#include <soma/compat/tensor.hpp>

// Further headers that such sources expect from this one.
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace torch {
using namespace soma_compat;  // NOLINT: these namespaces are names of that one
}
namespace c10 {
using namespace soma_compat;  // NOLINT
}
namespace at {
using namespace soma_compat;  // NOLINT
}
using soma_compat::get_cpu_count;
using soma_compat::get_cpu_id;
using soma_compat::get_dst_tensor;
