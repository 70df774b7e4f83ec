#pragma once
// Images: PNG and JPEG files as tensors. Needs libpng 1.6 and libjpeg (soma::images in CMake).
// soma/data/idx.hpp, for IDX files, needs neither.

#include <soma/io/images/load_image.hpp>
