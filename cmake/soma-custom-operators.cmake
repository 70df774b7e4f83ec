# soma_add_custom_operators(<target> NAME <n> COMPUTE <file>... [SHAPE <file>...] [MULTICORE] [STACK_SIZE <bytes>])
#
# lib<n>.so from the C++ sources of custom operators for the GPSIMD processors of a NeuronCore, for
# soma::load_operators(). SHAPE files have shape functions and NEURON_LIBRARY, COMPUTE files the kernels. With MULTICORE
# all processors run each kernel. STACK_SIZE becomes the macro of that name. What an operator names is looked for while
# building; see docs/custom_operators.md. Options, include folders and libraries that <target> is given later count for
# all of it. Used by soma itself and by the installed package.
if(DEFINED soma_package_include)  # by soma-config.cmake
  set(SOMA_CUSTOM_OPERATORS_INCLUDE "${soma_package_include}" CACHE INTERNAL "headers of soma/compat")
else()
  get_filename_component(soma_include "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
  set(SOMA_CUSTOM_OPERATORS_INCLUDE "${soma_include}" CACHE INTERNAL "headers of soma/compat")
endif()

# Libraries may define equal names, and are unloaded: nothing of them is seen, and nothing is unique in the process.
function(soma_custom_operators_part part)
  target_include_directories(${part} BEFORE PRIVATE
    "${SOMA_CUSTOM_OPERATORS_INCLUDE}/soma/compat" "${SOMA_CUSTOM_OPERATORS_INCLUDE}")
  target_compile_features(${part} PRIVATE cxx_std_17)
  target_compile_options(${part} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  set_target_properties(${part} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

function(soma_add_custom_operators target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "MULTICORE" "NAME;STACK_SIZE" "COMPUTE;SHAPE")
  set(call "soma_add_custom_operators(${target})")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${call}: unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_NAME OR NOT arg_COMPUTE)
    message(FATAL_ERROR "${call}: NAME and COMPUTE are needed")
  endif()
  if(arg_NAME STREQUAL "builtin")
    message(FATAL_ERROR "${call}: NAME builtin is reserved")
  endif()
  if(DEFINED arg_STACK_SIZE AND (NOT arg_STACK_SIZE MATCHES "^[0-9]+$" OR arg_STACK_SIZE GREATER 409600))
    message(FATAL_ERROR "${call}: STACK_SIZE is ${arg_STACK_SIZE}, at most 409600 bytes (400 KB) are supported")
  endif()
  set(include "${SOMA_CUSTOM_OPERATORS_INCLUDE}")
  if(NOT EXISTS "${include}/soma/compat/carrier.cpp")
    message(FATAL_ERROR "${call}: this installation of soma has no soma/compat (the single header comes without it)")
  endif()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}_bindings")
  file(MAKE_DIRECTORY "${folder}")
  set(compute "")
  set(bindings "")
  foreach(file IN LISTS arg_COMPUTE)
    get_filename_component(file "${file}" ABSOLUTE)
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "${call}: there is no ${file}")
    endif()
    list(LENGTH bindings number)
    list(APPEND compute "${file}")
    list(APPEND bindings "${folder}/binding_${number}.cpp")
  endforeach()

  # All libraries of a project share these objects.
  if(NOT TARGET soma_custom_operators_tool)
    add_library(soma_custom_operators_tool OBJECT EXCLUDE_FROM_ALL "${include}/soma/compat/build_tool.cpp")
    add_library(soma_custom_operators_carrier OBJECT EXCLUDE_FROM_ALL
      "${include}/soma/compat/carrier.cpp" "${include}/soma/compat/printf.cpp")
    soma_custom_operators_part(soma_custom_operators_tool)
    soma_custom_operators_part(soma_custom_operators_carrier)
  endif()

  # The tool and the library share these objects.
  set(shapes "")
  if(arg_SHAPE)
    add_library(${target}_shapes OBJECT EXCLUDE_FROM_ALL ${arg_SHAPE})
    set(shapes "$<TARGET_OBJECTS:${target}_shapes>")
  endif()
  add_executable(${target}_tool EXCLUDE_FROM_ALL "$<TARGET_OBJECTS:soma_custom_operators_tool>" ${shapes})
  target_link_libraries(${target}_tool PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(${target}_tool PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${folder}" LINKER_LANGUAGE CXX)
  add_custom_command(OUTPUT ${bindings}
    COMMAND ${target}_tool list $<BOOL:${arg_MULTICORE}> "${folder}" ${compute}
    DEPENDS ${target}_tool ${compute} COMMENT "Kernels of ${arg_NAME}" VERBATIM)
  add_library(${target} SHARED ${bindings} "$<TARGET_OBJECTS:soma_custom_operators_carrier>" ${shapes})
  set_target_properties(${target} PROPERTIES PREFIX lib OUTPUT_NAME "${arg_NAME}" SUFFIX .so)
  # (A COMMAND of a target waits for the program that it names.)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${target}_tool check "$<TARGET_FILE:${target}>" VERBATIM)

  set(parts ${target})
  if(arg_SHAPE)
    list(APPEND parts ${target}_shapes)
    foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
      set_property(TARGET ${target}_shapes APPEND PROPERTY ${property} "$<TARGET_PROPERTY:${target},${property}>")
    endforeach()
  endif()
  foreach(part IN LISTS parts)
    soma_custom_operators_part(${part})
    if(arg_STACK_SIZE)
      target_compile_definitions(${part} PRIVATE "STACK_SIZE=${arg_STACK_SIZE}")
    endif()
  endforeach()
endfunction()
