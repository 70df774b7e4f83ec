# SOMA_TARGETS: the instruction sets that soma::dispatch is compiled for. A program that ships to known CPUs builds
# the library in less time with fewer of them. What the compiler's flags allow stays as the fallback for other CPUs.
set(SOMA_TARGETS "" CACHE STRING
    "Instruction sets of soma::dispatch by Highway's names, such as AVX2;AVX3, or BASELINE, or NATIVE for the best of this machine; empty: all")
set(soma_known_targets BASELINE SSE4 AVX2 AVX3 AVX3_ZEN4 AVX3_SPR AVX10_2)

# soma_native_target(<result>): the best of soma_known_targets that this machine's CPU, this Highway and soma's units have;
# nothing, which means all, where there is none. Highway itself is asked, because each release of it wants other properties of
# the CPU, in a program that sees the macros of a unit.
function(soma_native_target result)
  get_target_property(highway hwy::hwy ALIASED_TARGET)
  if(CMAKE_CROSSCOMPILING OR highway)
    message(FATAL_ERROR "SOMA_TARGETS: NATIVE asks Highway on this machine, so it needs an installed one and no cross-compiler")
  endif()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/soma_native_target.cpp")
  file(WRITE "${source}" "#include <soma/dispatch/targets.hpp>\n#include <hwy/targets.h>\n#include <cstdio>\nint main() {\n\
  const auto both = static_cast<unsigned long long>(hwy::SupportedTargets() & HWY_TARGETS);\n\
  for (int i = 0; i < 63; ++i)  // the lowest bit is the best target\n\
    if ((both >> i & 1) != 0)\n\
      std::puts(hwy::TargetName(static_cast<decltype(hwy::SupportedTargets())>(1ULL << i)));\n}\n")
  try_run(ran compiled "${CMAKE_CURRENT_BINARY_DIR}/soma_native_target" "${source}" LINK_LIBRARIES hwy::hwy
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/include"
    COMPILE_DEFINITIONS -std=c++20 -DSOMA_DISPATCH -DHWY_WANT_AVX3_DL
    RUN_OUTPUT_VARIABLE names COMPILE_OUTPUT_VARIABLE why)
  if(NOT compiled OR NOT ran EQUAL 0)
    message(FATAL_ERROR "SOMA_TARGETS: a program that asks Highway for NATIVE does not run: ${why}")
  endif()
  string(REGEX MATCHALL "[A-Z0-9_]+" names "${names}")
  foreach(name IN LISTS names)
    if(name IN_LIST soma_known_targets)
      set(${result} "${name}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

# soma_limit_targets(<library>): checks SOMA_TARGETS and hands it to the library's units.
function(soma_limit_targets library)
  if(SOMA_TARGETS STREQUAL "")
    return()
  endif()
  list(JOIN soma_known_targets ", " known)
  if(SOMA_TARGETS STREQUAL "NATIVE")
    if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|i.86)$")
      return()  # one instruction set, which is this machine's
    endif()
    soma_native_target(SOMA_TARGETS)
    if(SOMA_TARGETS STREQUAL "")
      return()
    endif()
  endif()
  # SSE2 is the baseline of x86-64 in newer Highways.
  include(CheckSymbolExists)
  # Only imported targets exist in a project that tries something: of a subproject we take the folder.
  get_target_property(highway hwy::hwy ALIASED_TARGET)
  if(highway)
    get_target_property(CMAKE_REQUIRED_INCLUDES hwy::hwy SOURCE_DIR)
  else()
    set(CMAKE_REQUIRED_LIBRARIES hwy::hwy)
  endif()
  set(CMAKE_REQUIRED_QUIET ON)
  set(macros HWY_EMU128 HWY_SCALAR)
  foreach(name IN LISTS SOMA_TARGETS ITEMS SSE2)
    if(NOT name IN_LIST soma_known_targets AND NOT name STREQUAL "SSE2")
      message(FATAL_ERROR "SOMA_TARGETS: '${name}' is none of ${known}")
    endif()
    if(NOT name STREQUAL "BASELINE")
      check_symbol_exists(HWY_${name} "hwy/detect_targets.h" SOMA_HIGHWAY_HAS_${name})
      if(SOMA_HIGHWAY_HAS_${name})
        list(APPEND macros HWY_${name})
      elseif(NOT name STREQUAL "SSE2")
        message(FATAL_ERROR "SOMA_TARGETS: this Highway (${hwy_VERSION}) has no ${name}; a newer one may have it")
      endif()
    endif()
  endforeach()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|i.86)$")
    message(FATAL_ERROR "SOMA_TARGETS is for x86: on ${CMAKE_SYSTEM_PROCESSOR} there is one instruction set only")
  endif()
  list(JOIN macros "|" macros)
  target_compile_definitions(${library} PRIVATE "SOMA_TARGETS=(${macros})")
endfunction()
