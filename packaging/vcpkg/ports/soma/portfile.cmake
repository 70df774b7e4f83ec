# The sources are the checkout that this overlay port is part of.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../.." ABSOLUTE)

if(NOT "dispatch" IN_LIST FEATURES)
    set(VCPKG_BUILD_TYPE release) # nothing but headers
endif()

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        dispatch    SOMA_BUILD_DISPATCH
        images      SOMA_WITH_IMAGES
        io          SOMA_WITH_IO
        mpi         SOMA_WITH_MPI
        tensorboard SOMA_WITH_TENSORBOARD
        text        SOMA_WITH_TEXT
        xtensor     SOMA_WITH_XTENSOR
)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        ${FEATURE_OPTIONS}
        -DSOMA_BUILD_TESTS=OFF
        -DSOMA_BUILD_EXAMPLES=OFF
        -DSOMA_BUILD_BENCHMARKS=OFF
        -DSOMA_INSTALL=ON
)

vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME soma CONFIG_PATH share/cmake/soma)
if("dispatch" IN_LIST FEATURES) # the files of headers go beside that of the library
    file(GLOB pkgconfig_files "${CURRENT_PACKAGES_DIR}/share/pkgconfig/*.pc")
    file(COPY ${pkgconfig_files} DESTINATION "${CURRENT_PACKAGES_DIR}/lib/pkgconfig")
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/pkgconfig")
endif()
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE
    "${CURRENT_PACKAGES_DIR}/debug/include"
    "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/share/cmake"
    "${CURRENT_PACKAGES_DIR}/share/licenses"
)
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
