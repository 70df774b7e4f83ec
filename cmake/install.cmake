# Installed layout: headers in include/soma, package files in share/cmake/soma (they do not depend on the
# architecture), the compiled library in lib. Each component has an export file of its own, so that a
# package may lack any of them.
include(CMakePackageConfigHelpers)

set(soma_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/soma")

if(SOMA_USE_SINGLE_INCLUDE)
  install(FILES "${PROJECT_SOURCE_DIR}/single_include/soma/soma.hpp"
                "${PROJECT_SOURCE_DIR}/single_include/soma/neuroncore.hpp"
                "${PROJECT_SOURCE_DIR}/single_include/soma/sparse.hpp"
                "${PROJECT_SOURCE_DIR}/single_include/soma/train.hpp"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/soma")
else()
  # The .cpp files of dispatch/ go along: without CMake they are compiled into the program directly.
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/soma" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
          FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h" PATTERN "*.cpp")
endif()

install(TARGETS soma EXPORT soma-targets)
install(EXPORT soma-targets NAMESPACE soma:: DESTINATION "${soma_package_dir}")

if(SOMA_BUILD_DISPATCH)
  install(TARGETS soma_dispatch EXPORT soma-dispatch-targets
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT soma-dispatch-targets NAMESPACE soma:: DESTINATION "${soma_package_dir}")
  configure_file(cmake/soma-dispatch.pc.in soma-dispatch.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/soma-dispatch.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
if(TARGET soma_xtensor)
  install(TARGETS soma_xtensor EXPORT soma-xtensor-targets)
  install(EXPORT soma-xtensor-targets NAMESPACE soma:: DESTINATION "${soma_package_dir}")
endif()
if(TARGET soma_io)
  install(TARGETS soma_io EXPORT soma-io-targets)
  install(EXPORT soma-io-targets NAMESPACE soma:: DESTINATION "${soma_package_dir}")
  install(FILES cmake/soma-xxhash.cmake DESTINATION "${soma_package_dir}")
endif()
if(TARGET soma_models)
  install(TARGETS soma_models EXPORT soma-models-targets)
  install(EXPORT soma-models-targets NAMESPACE soma:: DESTINATION "${soma_package_dir}")
endif()
if(TARGET soma_tensorboard)
  install(TARGETS soma_tensorboard EXPORT soma-tensorboard-targets)
  install(EXPORT soma-tensorboard-targets NAMESPACE soma:: DESTINATION "${soma_package_dir}")
  install(FILES cmake/soma-protozero.cmake DESTINATION "${soma_package_dir}")
endif()
if(TARGET soma_mpi)
  install(TARGETS soma_mpi EXPORT soma-mpi-targets)
  install(EXPORT soma-mpi-targets NAMESPACE soma:: DESTINATION "${soma_package_dir}")
  install(FILES cmake/soma-mpi-library.cmake DESTINATION "${soma_package_dir}")
endif()
if(TARGET soma_text)
  install(TARGETS soma_text EXPORT soma-text-targets)
  install(EXPORT soma-text-targets NAMESPACE soma:: DESTINATION "${soma_package_dir}")
  install(FILES cmake/soma-utf8proc.cmake DESTINATION "${soma_package_dir}")
endif()

configure_package_config_file(cmake/soma-config.cmake.in soma-config.cmake
  INSTALL_DESTINATION "${soma_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(soma-config-version.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
set(soma_pc_includedir "\${prefix}")
cmake_path(APPEND soma_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")  # which is that folder itself where it is absolute
configure_file(cmake/soma.pc.in soma.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/soma-config.cmake" "${PROJECT_BINARY_DIR}/soma-config-version.cmake"
        DESTINATION "${soma_package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/soma.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/soma")
