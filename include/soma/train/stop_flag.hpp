#pragma once
// StopFlag under the name that trainers use.

#include <soma/runtime/stop_flag.hpp>

namespace soma::train {

using soma::StopFlag;

}  // namespace soma::train
