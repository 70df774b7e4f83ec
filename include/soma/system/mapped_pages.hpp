#pragma once
// The pages of a mapped file (system/files.hpp).

#include <soma/base/config.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::system {

// Gives the memory of whole pages among these bytes of a mapped file back to the system, which
// fetches them again when they are touched. The number of bytes; 0 where the system cannot. Memory
// that is no file's loses its content.
std::size_t release_pages(const std::byte* memory, std::size_t bytes) noexcept;

}  // namespace SOMA_NAMESPACE::system

#ifndef SOMA_DISPATCH
#include <soma/system/impl/mapped_pages.ipp>
#endif
