#pragma once
// The version, in one place: CMake, Conan and the single header read these three lines.

#define SOMA_VERSION_MAJOR 0
#define SOMA_VERSION_MINOR 3
#define SOMA_VERSION_PATCH 0
