#pragma once
// Files: NumPy's .npy, safetensors, and the hash of a state. Needs nlohmann-json and xxHash
// (soma::io in CMake); soma/io/npy.hpp alone needs neither.

#include <soma/io/npy.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/io/state_hash.hpp>
