#pragma once
// Shared libraries that are loaded while the program runs. Linux.

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <string>

#if !SOMA_LINUX
#error "soma loads shared libraries (soma/plugin.hpp, soma/processors.hpp) on Linux only."
#error "Elsewhere compile operators of your own into the program: soma/autograd/custom.hpp."
#endif

namespace SOMA_NAMESPACE::system {

// The reason not to give a file to the loader; empty if there is none. The loader would wait
// forever at a pipe, and would map parts that a file does not have: touching those parts ends the
// program.
std::string problem_of_library(const std::string& path);

// nullptr, and the loader's reason, if it refuses the file.
void* load_library(const std::string& path, std::string& reason);
void unload_library(void* library);

// The library's own symbol of that name; nullptr: none. dlsym() alone would also find symbols of
// the libraries that it was linked with.
const void* own_symbol(void* library, const char* name);

}  // namespace SOMA_NAMESPACE::system

#ifndef SOMA_DISPATCH
#include <soma/system/impl/library.ipp>
#endif
