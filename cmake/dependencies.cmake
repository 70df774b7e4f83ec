# Libraries behind soma::soma. A target that exists already (superbuild, FetchContent) is taken as it is.
set(soma_install_hint
    "on Debian: apt-get install libhwy-dev libmsgsl-dev libxtensor-dev nlohmann-json3-dev libxxhash-dev libutf8proc-dev zlib1g-dev libprotozero-dev libpng-dev libjpeg-dev libopenmpi-dev openmpi-bin catch2")

find_package(Threads REQUIRED)

# Highway as a subproject has no namespaced target in any release, so we add the one that its package has.
if(TARGET hwy AND NOT TARGET hwy::hwy)
  add_library(hwy::hwy ALIAS hwy)
endif()
if(NOT TARGET hwy::hwy)
  find_package(hwy CONFIG QUIET)
  if(NOT TARGET hwy::hwy)
    message(FATAL_ERROR "soma needs Highway >= 1.0.3 (${soma_install_hint})")
  endif()
  if(hwy_VERSION AND hwy_VERSION VERSION_LESS 1.0.3)
    message(FATAL_ERROR "soma needs Highway >= 1.0.3, found ${hwy_VERSION} (${soma_install_hint})")
  endif()
endif()

# No version here: GSL's version file accepts its own major only, and 4 and 5 are both fine.
if(NOT TARGET Microsoft.GSL::GSL)
  find_package(Microsoft.GSL CONFIG QUIET)
  if(NOT TARGET Microsoft.GSL::GSL)
    message(FATAL_ERROR "soma needs Microsoft GSL >= 4.0 (${soma_install_hint})")
  endif()
endif()

if(SOMA_WITH_XTENSOR AND NOT TARGET xtensor)
  find_package(xtensor 0.24.3 CONFIG QUIET)
  if(NOT TARGET xtensor AND NOT SOMA_WITH_XTENSOR STREQUAL "AUTO")
    message(FATAL_ERROR "SOMA_WITH_XTENSOR needs xtensor >= 0.24.3 (${soma_install_hint})")
  endif()
endif()

if((SOMA_WITH_IO OR SOMA_WITH_TEXT) AND NOT TARGET nlohmann_json::nlohmann_json)
  find_package(nlohmann_json 3.10 CONFIG QUIET)
endif()

if(SOMA_WITH_IO)
  include("${CMAKE_CURRENT_LIST_DIR}/soma-xxhash.cmake")
  if(NOT SOMA_WITH_IO STREQUAL "AUTO" AND NOT (TARGET nlohmann_json::nlohmann_json AND TARGET soma::xxhash))
    message(FATAL_ERROR "SOMA_WITH_IO needs nlohmann-json >= 3.10 and xxHash's header (${soma_install_hint})")
  endif()
endif()

if(SOMA_WITH_TEXT)
  include("${CMAKE_CURRENT_LIST_DIR}/soma-utf8proc.cmake")
  find_package(ZLIB QUIET)
  if(NOT SOMA_WITH_TEXT STREQUAL "AUTO"
     AND NOT (TARGET nlohmann_json::nlohmann_json AND TARGET soma::utf8proc AND TARGET ZLIB::ZLIB))
    message(FATAL_ERROR "SOMA_WITH_TEXT needs nlohmann-json >= 3.10, utf8proc and zlib (${soma_install_hint})")
  endif()
endif()

if(SOMA_WITH_TENSORBOARD)
  include("${CMAKE_CURRENT_LIST_DIR}/soma-protozero.cmake")
  if(NOT SOMA_WITH_TENSORBOARD STREQUAL "AUTO" AND NOT TARGET soma::protozero)
    message(FATAL_ERROR "SOMA_WITH_TENSORBOARD needs protozero's headers (${soma_install_hint})")
  endif()
endif()

if(SOMA_WITH_IMAGES)
  include("${CMAKE_CURRENT_LIST_DIR}/soma-image-libraries.cmake")
  if(NOT SOMA_WITH_IMAGES STREQUAL "AUTO" AND NOT SOMA_IMAGES_FOUND)
    message(FATAL_ERROR "SOMA_WITH_IMAGES needs libpng >= 1.6 and libjpeg (${soma_install_hint})")
  endif()
endif()

if(SOMA_WITH_MPI)
  include("${CMAKE_CURRENT_LIST_DIR}/soma-mpi-library.cmake")
  if(NOT SOMA_WITH_MPI STREQUAL "AUTO" AND NOT SOMA_MPI_FOUND)
    message(FATAL_ERROR "SOMA_WITH_MPI needs an MPI library of version 3 or later (${soma_install_hint})")
  endif()
endif()
