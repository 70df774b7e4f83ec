# A toolchain file for Windows (x86-64) with MinGW's g++ on Linux:
#   cmake -B build/windows -DCMAKE_TOOLCHAIN_FILE=cmake/mingw.cmake -DCMAKE_PREFIX_PATH=<libraries for Windows>
# docs/platforms.md says why the assembler gets an option.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_CXX_FLAGS_INIT "-Wa,-muse-unaligned-vector-move -Wa,-mbig-obj")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static")

# Programs of the build run here; headers and libraries are those of the target.
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
