#!/usr/bin/env bash
# Through pkg-config, for build systems that are not CMake.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
command -v pkg-config >/dev/null || skip "pkg-config is not installed"
run "$CMAKE" --install "$SOMA_BUILD" --prefix "$SOMA_WORK/prefix" >install.log
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(find "$SOMA_WORK/prefix" -type d -name pkgconfig | paste -sd:)
# With CMake's flags of this Highway, so that the object is that of CMake's projects.
# shellcheck disable=SC2046  # words on purpose
program consumer "$consumer/main.cpp" -- -std=gnu++20 -DHWY_WANT_AVX3_DL $(pkg-config --cflags --libs soma)
run ./consumer
if pkg-config --exists soma-dispatch; then
  # shellcheck disable=SC2046
  program consumer "$consumer/main.cpp" -- -std=gnu++20 $(pkg-config --cflags --libs soma-dispatch)
  run ./consumer
fi
if pkg-config --exists soma-dispatch && pkg-config --print-errors --exists soma-models; then
  # shellcheck disable=SC2046
  program with_files "$consumer/main.cpp" "$here"/../find_package/{io,text,models}.cpp -- -std=gnu++20 \
    $(pkg-config --cflags --libs soma-dispatch soma-models)
  run ./with_files
  # In the other order, and without the library's way: nothing of the compiled halves is taken.
  # shellcheck disable=SC2046
  run "$CXX" with_files.{main,io,text,models}.o $(pkg-config --libs soma-models soma-dispatch) -o with_files
  # shellcheck disable=SC2046
  program header_only "$here/../ways/files.cpp" -- $(pkg-config --cflags --libs soma soma-models)
  run ./header_only
fi

# Headers elsewhere than the rest, as some distributions have them. (CMake wants neither in the checkout.)
outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
run "$CMAKE" -S "$SOMA_SOURCE" -B elsewhere "-DCMAKE_CXX_COMPILER=$CXX" "-DCMAKE_INSTALL_PREFIX=$outside/rest" \
  "-DCMAKE_INSTALL_INCLUDEDIR=$outside/headers" -DSOMA_BUILD_TESTS=OFF -DSOMA_BUILD_EXAMPLES=OFF \
  -DSOMA_BUILD_BENCHMARKS=OFF -DSOMA_BUILD_DISPATCH=OFF >configure.log
run "$CMAKE" --install elsewhere >install.log
PKG_CONFIG_PATH=$outside/rest/share/pkgconfig
# shellcheck disable=SC2046
run "$CXX" -std=c++20 "$consumer/main.cpp" $(pkg-config --cflags --libs soma) -E >/dev/null
