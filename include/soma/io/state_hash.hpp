#pragma once
// state_hash: one number for all tensors of a state, to test if two runs are in the same state.

#include <soma/io/payload.hpp>
#include <soma/io/safetensors_dtype.hpp>
#include <soma/state/state_dict.hpp>
#include <soma/state/tensor_source.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

// The hash is compiled into the unit: no library to link.
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace SOMA_NAMESPACE {

// XXH64, seed 0, over the tensors in ascending order of the bytes of their names. For each: name, a
// zero byte, its dtype's name in safetensors ("F32"), a zero byte, rank (32 bits), sizes (64 bits
// each), elements in row-major order; all little-endian. Metadata, strides and ownership of memory
// do not matter. Only one tensor at a time is held in memory. Errors safetensors.dtype (a format
// without a name there), and those of the source.
std::uint64_t state_hash(TensorSource& tensors);
std::uint64_t state_hash(const StateDict& tensors);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/state_hash.ipp>
#endif
