#pragma once
// The version, in one place: CMake, Conan and the single header read these three lines. And the
// namespace that soma's names stand in.

#define SOMA_VERSION_MAJOR 0
#define SOMA_VERSION_MINOR 2
#define SOMA_VERSION_PATCH 0

// SOMA_NAMESPACE opens soma::v0_2 in units with SOMA_DISPATCH, soma::v0_2_header in others. The inner
// namespace is inline: programs write soma:: and nothing else. But the linker sees the full names, so
// that two versions in one process share no symbol, and so that a unit with soma::dispatch and one
// without it, which exchange soma's types, do not link: bodies are inline in one of them only, which
// would be against the one-definition rule. Forward declarations: soma/forward.hpp.
#define SOMA_PASTE_VERSION(major, minor, mode) v##major##_##minor##mode
#define SOMA_EXPAND_VERSION(major, minor, mode) SOMA_PASTE_VERSION(major, minor, mode)
#ifdef SOMA_DISPATCH
#define SOMA_INNER_NAMESPACE SOMA_EXPAND_VERSION(SOMA_VERSION_MAJOR, SOMA_VERSION_MINOR, )
#else
#define SOMA_INNER_NAMESPACE SOMA_EXPAND_VERSION(SOMA_VERSION_MAJOR, SOMA_VERSION_MINOR, _header)
#endif
#define SOMA_NAMESPACE soma::inline SOMA_INNER_NAMESPACE

namespace SOMA_NAMESPACE {

struct Version {
  int major, minor, patch;
};

inline constexpr Version version{SOMA_VERSION_MAJOR, SOMA_VERSION_MINOR, SOMA_VERSION_PATCH};

}  // namespace SOMA_NAMESPACE
