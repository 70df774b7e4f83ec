#pragma once
// The functions of device_scalars.hpp.

#include <soma/programs/device_scalars.hpp>

#include <soma/programs/neuroncore_device.hpp>
#include <soma/programs/run_mode.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE {

SOMA_INLINE void DeviceScalars::skip() { before_ = device_.runs().predicted; }

}  // namespace SOMA_NAMESPACE
