# Installed layout: headers in include/soma, package files in share/cmake/soma (they do not depend on the
# architecture), the compiled library in lib. Each component has an export file of its own, so that a
# package may lack any of them.
include(CMakePackageConfigHelpers)

set(soma_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/soma")

# Package descriptions (CPS) are for build systems other than CMake. They are off by default, because find_package() of
# CMake 4.3 and 4.4 prefers them to soma-config.cmake and then finds no component that they lack.
option(SOMA_INSTALL_CPS "Install package descriptions of soma::soma and soma::dispatch (CMake 4.3 or newer)" OFF)
if(SOMA_INSTALL_CPS AND CMAKE_VERSION VERSION_LESS 4.3)
  message(FATAL_ERROR "SOMA_INSTALL_CPS needs CMake 4.3 or newer, this is ${CMAKE_VERSION}")
endif()
if(SOMA_INSTALL_CPS)
  target_link_options(soma INTERFACE $<INSTALL_INTERFACE:-pthread>)
endif()

if(SOMA_USE_SINGLE_INCLUDE)
  install(FILES "${PROJECT_SOURCE_DIR}/single_include/soma/api.hpp"
                "${PROJECT_SOURCE_DIR}/single_include/soma/soma.hpp"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/soma")
else()
  # The .cpp files of dispatch/ go along: without CMake they are compiled into the program directly.
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/soma" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
          FILES_MATCHING PATTERN "*.hpp" PATTERN "*.ipp" PATTERN "*.h" PATTERN "*.cpp")
endif()

# soma_install_component(<target> <component>): a target with an export file of its own.
function(soma_install_component target component)
  set(export soma-${component}-targets)
  set(appendix APPENDIX ${component})
  if(component STREQUAL "")
    set(export soma-targets)
    set(appendix VERSION "${PROJECT_VERSION}" DEFAULT_TARGETS soma)
  endif()
  set(targets ${target})
  if(SOMA_BUILD_DISPATCH AND TARGET ${target}_compiled)
    list(APPEND targets ${target}_compiled)
  endif()
  install(TARGETS ${targets} EXPORT ${export}
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT ${export} NAMESPACE soma:: DESTINATION "${soma_package_dir}")
  # The libraries behind the other components have no packages that CMake could name in a package description.
  if(SOMA_INSTALL_CPS AND component MATCHES "^(dispatch)?$")
    install(PACKAGE_INFO soma EXPORT ${export} ${appendix})
  endif()
endfunction()

# soma_install_pkg_config(<component> <description> <cflags> <requires>): soma-<component>.pc
function(soma_install_pkg_config component soma_pc_description soma_pc_cflags soma_pc_requires)
  set(soma_pc_component "${component}")
  set(soma_pc_folder "${CMAKE_INSTALL_DATADIR}")
  set(soma_pc_libs "")
  set(soma_pc_variables "")
  if(SOMA_BUILD_DISPATCH AND TARGET soma_${component}_compiled)
    set(soma_pc_folder "${CMAKE_INSTALL_LIBDIR}")
    set(soma_pc_variables "libdir=\${pcfiledir}/..\n")
    # A component may stand behind soma-dispatch in a command, and needs its symbols, which need libhwy's (soma).
    set(soma_pc_libs " -L\${libdir} -lsoma_${component} -lsoma_dispatch")
    string(PREPEND soma_pc_requires "soma = ${PROJECT_VERSION}, ")
  endif()
  configure_file(cmake/soma-component.pc.in soma-${component}.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/soma-${component}.pc" DESTINATION "${soma_pc_folder}/pkgconfig")
endfunction()

soma_install_component(soma "")
if(SOMA_BUILD_DISPATCH)
  soma_install_component(soma_dispatch dispatch)
  configure_file(cmake/soma-dispatch.pc.in soma-dispatch.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/soma-dispatch.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
if(TARGET soma_xtensor)
  soma_install_component(soma_xtensor xtensor)
  soma_install_pkg_config(xtensor "with xtensor, for soma/xtensor.hpp" "" "xtensor")
endif()
if(TARGET soma_io)
  soma_install_component(soma_io io)
  install(FILES cmake/soma-xxhash.cmake DESTINATION "${soma_package_dir}")
  soma_install_pkg_config(io "with what soma/io.hpp needs" "" "nlohmann_json, libxxhash")
endif()
if(TARGET soma_text)
  soma_install_component(soma_text text)
  install(FILES cmake/soma-utf8proc.cmake DESTINATION "${soma_package_dir}")
  soma_install_pkg_config(text "with what soma/text.hpp needs" "" "nlohmann_json, libutf8proc, zlib")
endif()
if(TARGET soma_models)
  soma_install_component(soma_models models)
  soma_install_pkg_config(models "with what soma/models.hpp needs" "" "soma-io, soma-text")
endif()
if(TARGET soma_tensorboard)
  soma_install_component(soma_tensorboard tensorboard)
  install(FILES cmake/soma-protozero.cmake DESTINATION "${soma_package_dir}")
  soma_install_pkg_config(tensorboard "for soma/tensorboard.hpp; protozero has no file of this kind" "" "")
endif()
if(TARGET soma_images)
  soma_install_component(soma_images images)
  install(FILES cmake/soma-image-libraries.cmake DESTINATION "${soma_package_dir}")
  soma_install_pkg_config(images "with what soma/images.hpp needs" "" "libpng, libjpeg")
endif()
if(TARGET soma_mpi)
  soma_install_component(soma_mpi mpi)
  install(FILES cmake/soma-mpi-library.cmake DESTINATION "${soma_package_dir}")
endif()

configure_package_config_file(cmake/soma-config.cmake.in soma-config.cmake
  INSTALL_DESTINATION "${soma_package_dir}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(soma-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
set(soma_pc_includedir "\${prefix}")
cmake_path(APPEND soma_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")  # which is that folder itself where it is absolute
configure_file(cmake/soma.pc.in soma.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/soma-config.cmake" "${PROJECT_BINARY_DIR}/soma-config-version.cmake"
              cmake/soma-linked-components.cmake cmake/soma-custom-operators.cmake
        DESTINATION "${soma_package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/soma.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/soma")
