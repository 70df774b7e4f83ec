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

# One unit per kernel family. Each compiles itself once per CPU target, by function attributes: no -m flags.
set(soma_dispatch_sources
  attention.cpp
  context.cpp
  convert.cpp
  element.cpp
  embedding.cpp
  engine.cpp
  gemm.cpp
  image.cpp
  loss.cpp
  norm.cpp
  optimizer.cpp
  programs.cpp
  quantize.cpp
  random.cpp
  reduce.cpp
  sequence.cpp
  sparse.cpp)
list(TRANSFORM soma_dispatch_sources PREPEND "${PROJECT_SOURCE_DIR}/include/soma/dispatch/")
add_library(soma_dispatch ${soma_dispatch_sources})  # static, or shared with BUILD_SHARED_LIBS
add_library(soma::dispatch ALIAS soma_dispatch)
set_target_properties(soma_dispatch PROPERTIES
  EXPORT_NAME dispatch
  VERSION "${PROJECT_VERSION}"
  SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
  UNITY_BUILD OFF)  # each unit goes through the targets on its own
if(NOT DEFINED CMAKE_POSITION_INDEPENDENT_CODE)
  set_target_properties(soma_dispatch PROPERTIES POSITION_INDEPENDENT_CODE ON)  # so that it fits into shared libraries
endif()
soma_limit_targets(soma_dispatch)
if(NOT SOMA_BUILD_DISPATCH)
  set_target_properties(soma_dispatch PROPERTIES EXCLUDE_FROM_ALL ON)  # built when something links it
endif()
target_compile_definitions(soma_dispatch PUBLIC SOMA_DISPATCH=1)
# The units need the single files even where users are given the single header.
target_include_directories(soma_dispatch BEFORE PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(soma_dispatch PUBLIC soma PRIVATE $<BUILD_INTERFACE:soma_warnings>)

if(SOMA_WITH_XTENSOR AND TARGET xtensor)
  add_library(soma_xtensor INTERFACE)
  add_library(soma::xtensor ALIAS soma_xtensor)
  set_target_properties(soma_xtensor PROPERTIES EXPORT_NAME xtensor)
  target_link_libraries(soma_xtensor INTERFACE soma xtensor)
endif()

if(SOMA_WITH_IO AND TARGET nlohmann_json::nlohmann_json AND TARGET soma::xxhash)
  add_library(soma_io INTERFACE)
  add_library(soma::io ALIAS soma_io)
  set_target_properties(soma_io PROPERTIES EXPORT_NAME io)
  target_link_libraries(soma_io INTERFACE soma nlohmann_json::nlohmann_json soma::xxhash)
endif()

if(SOMA_WITH_TENSORBOARD AND TARGET soma::protozero)
  add_library(soma_tensorboard INTERFACE)
  add_library(soma::tensorboard ALIAS soma_tensorboard)
  set_target_properties(soma_tensorboard PROPERTIES EXPORT_NAME tensorboard)
  target_link_libraries(soma_tensorboard INTERFACE soma soma::protozero)
endif()

if(SOMA_WITH_IMAGES AND SOMA_IMAGES_FOUND)
  add_library(soma_images INTERFACE)
  add_library(soma::images ALIAS soma_images)
  set_target_properties(soma_images PROPERTIES EXPORT_NAME images)
  target_link_libraries(soma_images INTERFACE soma PNG::PNG JPEG::JPEG)
endif()

if(SOMA_WITH_MPI AND SOMA_MPI_FOUND)
  add_library(soma_mpi INTERFACE)
  add_library(soma::mpi ALIAS soma_mpi)
  set_target_properties(soma_mpi PROPERTIES EXPORT_NAME mpi)
  target_link_libraries(soma_mpi INTERFACE soma MPI::MPI_CXX)
endif()

if(SOMA_WITH_TEXT AND TARGET nlohmann_json::nlohmann_json AND TARGET soma::utf8proc AND TARGET ZLIB::ZLIB)
  add_library(soma_text INTERFACE)
  add_library(soma::text ALIAS soma_text)
  set_target_properties(soma_text PROPERTIES EXPORT_NAME text)
  target_link_libraries(soma_text INTERFACE soma nlohmann_json::nlohmann_json soma::utf8proc ZLIB::ZLIB)
endif()

if(TARGET soma_io AND TARGET soma_text)
  add_library(soma_models INTERFACE)
  add_library(soma::models ALIAS soma_models)
  set_target_properties(soma_models PROPERTIES EXPORT_NAME models)
  target_link_libraries(soma_models INTERFACE soma_io soma_text)
endif()
