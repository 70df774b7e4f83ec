#pragma once
// A few bytes that one process writes and others of the same user read, in a file that all of them
// have mapped. Linux.

#include <soma/base/config.hpp>
#include <soma/system/which.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#if !SOMA_LINUX
#error "soma's status pages (StatusPublisher, StatusPage) are for Linux."
#error "Elsewhere derive from soma::train::Callback and publish what it is told."
#endif

namespace SOMA_NAMESPACE::system {

// Lets nobody but this user into a folder.
void make_private(const std::string& folder);

// Makes a new file of that size, for this user alone, and maps it. nullptr with errno, and `step`
// says in which step it failed.
void* create_page(const std::string& path, std::size_t bytes, std::string_view& step);

// Maps another process's page to read it. nullptr: `why` says why not; empty if it is gone.
const void* open_page(const std::string& path, std::size_t bytes, std::string_view& why);

void close_page(const void* page, std::size_t bytes);

// Gives a file a second name; false with errno if that name is taken.
bool add_name(const std::string& path, const std::string& name);

}  // namespace SOMA_NAMESPACE::system

#ifndef SOMA_DISPATCH
#include <soma/system/impl/shared_page.ipp>
#endif
