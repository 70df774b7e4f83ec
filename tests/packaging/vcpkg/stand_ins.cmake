# cmake -DPORT=<folder> -DFEATURES=a;b -DWORK=<folder> -P stand_ins.cmake
#
# Runs a portfile without vcpkg: the functions that it calls, as vcpkg documents them, for one release build on this
# machine. What would be packaged is in <work>/installed afterwards, laid out as vcpkg does it.
cmake_minimum_required(VERSION 3.22)
foreach(name PORT WORK)
  if(NOT DEFINED ${name})
    message(FATAL_ERROR "-D${name}= is missing")
  endif()
endforeach()
set(CURRENT_PORT_DIR "${PORT}")
set(CMAKE_CURRENT_LIST_DIR "${PORT}")
get_filename_component(name "${PORT}" NAME)
set(CURRENT_PACKAGES_DIR "${WORK}/installed")
file(READ "${PORT}/vcpkg.json" manifest)
string(JSON VERSION GET "${manifest}" version)
foreach(feature IN LISTS FEATURES)
  string(JSON described ERROR_VARIABLE unknown GET "${manifest}" features ${feature} description)
  if(unknown)
    message(FATAL_ERROR "vcpkg.json describes no feature '${feature}'")
  endif()
endforeach()

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY OUTPUT_FILE "${WORK}/portfile.log")
endfunction()

function(vcpkg_check_features)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
  set(options "")
  while(arg_FEATURES)
    list(POP_FRONT arg_FEATURES feature option)
    set(value OFF)
    if(feature IN_LIST FEATURES)
      set(value ON)
    endif()
    list(APPEND options "-D${option}=${value}")
  endwhile()
  set(${arg_OUT_FEATURE_OPTIONS} "${options}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${WORK}/build" -DCMAKE_BUILD_TYPE=Release
      "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" -DCMAKE_INSTALL_LIBDIR=lib -DFETCHCONTENT_FULLY_DISCONNECTED=ON
      ${arg_OPTIONS} ${CONFIGURE_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --build "${WORK}/build" --parallel 2)
  run("${CMAKE_COMMAND}" --install "${WORK}/build")
endfunction()

# Moves the package's files to share/<name> and corrects the way from there to the prefix.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
  set(target "${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME}")
  file(GLOB files "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*")
  file(COPY ${files} DESTINATION "${target}")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}")
  file(GLOB files "${target}/*[Tt]argets.cmake" "${target}/*-config.cmake")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(REGEX REPLACE "get_filename_component\\(_IMPORT_PREFIX \"\\\${CMAKE_CURRENT_LIST_FILE}\" PATH\\)(\nget_filename_component\\(_IMPORT_PREFIX \"\\\${_IMPORT_PREFIX}\" PATH\\))*"
           "get_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)" text "${text}")
    string(REGEX REPLACE "get_filename_component\\(PACKAGE_PREFIX_DIR \"\\\${CMAKE_CURRENT_LIST_DIR}/[./]*\" ABSOLUTE\\)"
           "get_filename_component(PACKAGE_PREFIX_DIR \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)" text "${text}")
    file(WRITE "${file}" "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  configure_file("${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/${name}/copyright" COPYONLY)
endfunction()

# vcpkg_download_distfile() and vcpkg_extract_source_archive(), for archives on this machine.
function(vcpkg_download_distfile out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILENAME;SHA512" "URLS")
  file(DOWNLOAD "${arg_URLS}" "${WORK}/${arg_FILENAME}" EXPECTED_HASH "SHA512=${arg_SHA512}")
  set(${out} "${WORK}/${arg_FILENAME}" PARENT_SCOPE)
endfunction()

function(vcpkg_extract_source_archive out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCHIVE" "")
  file(ARCHIVE_EXTRACT INPUT "${arg_ARCHIVE}" DESTINATION "${WORK}/source")
  file(GLOB source "${WORK}/source/*")
  set(${out} "${source}" PARENT_SCOPE)
endfunction()

set(PORT "${name}")
include("${CURRENT_PORT_DIR}/portfile.cmake")

# The checks that vcpkg makes after a build, as far as they concern this port.
foreach(wanted include/soma/soma.hpp share/soma/copyright share/soma/usage share/soma/soma-config.cmake)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${wanted}")
    message(FATAL_ERROR "the port installs no ${wanted}")
  endif()
endforeach()
file(GLOB_RECURSE everything LIST_DIRECTORIES true "${CURRENT_PACKAGES_DIR}/*")
foreach(path IN LISTS everything)
  if(IS_DIRECTORY "${path}")
    file(GLOB inside "${path}/*")
    if(NOT inside)
      message(FATAL_ERROR "the port leaves an empty folder: ${path}")
    endif()
  endif()
endforeach()
