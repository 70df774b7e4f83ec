#pragma once
// Event files for TensorBoard. Needs protozero (soma::tensorboard in CMake), which needs
// exceptions.

#include <soma/io/tensorboard.hpp>
