include(GNUInstallDirs)
include("${CMAKE_CURRENT_LIST_DIR}/dispatch_targets.cmake")

# Warnings and errors-from-warnings are for our own units only: nothing here reaches a user's compile line.
add_library(soma_warnings INTERFACE)
target_compile_options(soma_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${SOMA_WERROR}>:-Werror>)

add_library(soma INTERFACE)
add_library(soma::soma ALIAS soma)
set(soma_headers "${PROJECT_SOURCE_DIR}/include")
if(SOMA_USE_SINGLE_INCLUDE)
  set(soma_headers "${PROJECT_SOURCE_DIR}/single_include")
endif()
target_include_directories(soma INTERFACE
  "$<BUILD_INTERFACE:${soma_headers}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(soma INTERFACE cxx_std_20)
# The installed soma-config.cmake adds Threads::Threads by itself, so that a package description (CPS) can be written:
# CMake's importer of those knows packages only, and threads are a module.
target_link_libraries(soma INTERFACE hwy::hwy Microsoft.GSL::GSL $<BUILD_INTERFACE:Threads::Threads>)
if(hwy_VERSION AND hwy_VERSION VERSION_LESS 1.0.4)
  # Those releases stop with an #error under flags of recent CPUs. Our headers set the same macro, but
  # too late for a unit that includes Highway first. The installed package decides this anew.
  target_compile_definitions(soma INTERFACE $<BUILD_INTERFACE:HWY_WANT_AVX3_DL>)
endif()

# soma::dispatch: a unit for each kernel family, which compiles itself once per CPU target by function attributes (no -m
# flags); and units with the bodies of all other functions (impl/*.ipp), compiled once.
set(soma_kernel_units attention context convert element embedding engine gemm image loss norm optimizer programs quantize
  random reduce sequence sparse)
set(soma_body_units between core learn neuroncore plugin samples testing train)
set(soma_units "${PROJECT_SOURCE_DIR}/include/soma/dispatch")
add_library(soma_dispatch)  # static, or shared with BUILD_SHARED_LIBS
foreach(unit IN LISTS soma_kernel_units soma_body_units)
  target_sources(soma_dispatch PRIVATE "${soma_units}/${unit}.cpp")
endforeach()
add_library(soma::dispatch ALIAS soma_dispatch)
set_target_properties(soma_dispatch PROPERTIES EXPORT_NAME dispatch)
soma_limit_targets(soma_dispatch)
if(NOT SOMA_BUILD_DISPATCH)
  set_target_properties(soma_dispatch PROPERTIES EXCLUDE_FROM_ALL ON)  # built when something links it
endif()
target_compile_definitions(soma_dispatch PUBLIC SOMA_DISPATCH=1)
target_link_libraries(soma_dispatch PUBLIC soma)

# soma_library(<target>): what all compiled libraries of soma have in common.
function(soma_library target)
  set_target_properties(${target} PROPERTIES
    VERSION "${PROJECT_VERSION}"
    SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
    UNITY_BUILD OFF)  # each unit goes through the targets on its own
  if(NOT DEFINED CMAKE_POSITION_INDEPENDENT_CODE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)  # so that it fits into shared libraries
  endif()
  # The units need the single files even where users are given the single header.
  target_include_directories(${target} BEFORE PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:soma_warnings>)
endfunction()
soma_library(soma_dispatch)

# soma_component(<name> <libraries> [UNITS <units>] [ON <components>]): soma::<name>, the headers with the libraries
# they need. UNITS are its compiled half, lib soma_<name>, for programs with soma::dispatch. A program without it may link
# the same component: it takes no symbol of the half.
function(soma_component name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "UNITS;ON")
  add_library(soma_${name} INTERFACE)
  add_library(soma::${name} ALIAS soma_${name})
  set_target_properties(soma_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(soma_${name} INTERFACE soma ${arg_UNPARSED_ARGUMENTS} ${arg_ON})
  if(arg_UNITS)
    set(half soma_${name}_compiled)
    list(TRANSFORM arg_UNITS PREPEND "${soma_units}/components/")
    list(TRANSFORM arg_UNITS APPEND ".cpp")
    add_library(${half} ${arg_UNITS})
    soma_library(${half})
    set_target_properties(${half} PROPERTIES EXPORT_NAME ${name}_compiled OUTPUT_NAME soma_${name})
    list(TRANSFORM arg_ON APPEND "_compiled")
    # Private: a program chooses soma::dispatch, and with it SOMA_DISPATCH, by itself.
    target_link_libraries(${half} PRIVATE ${arg_ON} ${arg_UNPARSED_ARGUMENTS} soma_dispatch)
    if(SOMA_BUILD_DISPATCH)
      target_link_libraries(soma_${name} INTERFACE ${half})
    else()
      set_target_properties(${half} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    set_property(GLOBAL APPEND PROPERTY soma_compiled_components ${name})
  endif()
endfunction()

if(SOMA_WITH_XTENSOR AND TARGET xtensor)
  soma_component(xtensor xtensor)
endif()
if(SOMA_WITH_IO AND TARGET nlohmann_json::nlohmann_json AND TARGET soma::xxhash)
  soma_component(io nlohmann_json::nlohmann_json soma::xxhash UNITS io pipeline)
endif()
if(SOMA_WITH_TENSORBOARD AND TARGET soma::protozero)
  soma_component(tensorboard soma::protozero)
endif()
if(SOMA_WITH_IMAGES AND SOMA_IMAGES_FOUND)
  soma_component(images PNG::PNG JPEG::JPEG)
endif()
if(SOMA_WITH_MPI AND SOMA_MPI_FOUND)
  soma_component(mpi MPI::MPI_CXX)
endif()
if(SOMA_WITH_TEXT AND TARGET nlohmann_json::nlohmann_json AND TARGET soma::utf8proc AND TARGET ZLIB::ZLIB)
  soma_component(text nlohmann_json::nlohmann_json soma::utf8proc ZLIB::ZLIB UNITS text)
endif()
if(TARGET soma_io AND TARGET soma_text)
  soma_component(models UNITS models ON soma_io soma_text)
endif()

# Without SOMA_BUILD_DISPATCH the library is built only if a program links it. Whether one does is known when all
# targets are: then the components get their compiled halves.
function(soma_links_dispatch folder result)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(libraries ${target} ${property})
      if(libraries MATCHES "soma::dispatch")  # in a generator expression, too
        set(${result} TRUE PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    soma_links_dispatch("${below}" found)
    if(found)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} FALSE PARENT_SCOPE)
endfunction()
function(soma_link_compiled_components)
  soma_links_dispatch("${CMAKE_SOURCE_DIR}" found)
  get_property(components GLOBAL PROPERTY soma_compiled_components)
  if(found)
    foreach(component IN LISTS components)
      target_link_libraries(soma_${component} INTERFACE soma_${component}_compiled)
    endforeach()
  endif()
endfunction()
if(NOT SOMA_BUILD_DISPATCH)
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL soma_link_compiled_components)
endif()
