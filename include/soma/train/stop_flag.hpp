#pragma once
// StopFlag under the name that trainers use.

#include <soma/runtime/stop_flag.hpp>

namespace SOMA_NAMESPACE::train {

using soma::StopFlag;

}  // namespace SOMA_NAMESPACE::train
