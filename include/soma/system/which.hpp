#pragma once
// The system that a unit is compiled for. Files of this folder ask the compiler; all others ask
// these macros, and most of them need not.
//   SOMA_LINUX     Linux
//   SOMA_POSIX     Linux, macOS and their relatives
//   SOMA_WINDOWS   Windows, by MinGW or another compiler
//   SOMA_BARE      files, but no threads, locks or mappings: WASI

#if defined(_WIN32)
#define SOMA_WINDOWS 1
#else
#define SOMA_WINDOWS 0
#endif
#if defined(__wasm__)
#define SOMA_BARE 1
#else
#define SOMA_BARE 0
#endif
#if defined(__linux__)
#define SOMA_LINUX 1
#else
#define SOMA_LINUX 0
#endif
#if SOMA_WINDOWS || SOMA_BARE
#define SOMA_POSIX 0
#else
#define SOMA_POSIX 1
#endif
