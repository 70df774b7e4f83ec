#!/usr/bin/env bash
# Package descriptions (CPS), with CMake 4.3 or newer: found and used by CMake itself; without them, components as ever.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "python3-venv is not installed"
run python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'cmake>=4.3' >pip.log 2>&1 || skip "CMake 4.3 could not be fetched from the Python package index"
older=$CMAKE
CMAKE=$SOMA_WORK/venv/bin/cmake
unset CMAKE_GENERATOR
options=(-DSOMA_BUILD_TESTS=OFF -DSOMA_BUILD_EXAMPLES=OFF -DSOMA_BUILD_BENCHMARKS=OFF -DSOMA_TARGETS=BASELINE
  "-DCMAKE_CXX_COMPILER=$CXX" -DCMAKE_CXX_FLAGS=-march=native)
must_fail "CMake 4.3 or newer" "$older" -S "$SOMA_SOURCE" -B too_old "${options[@]}" -DSOMA_INSTALL_CPS=ON
install() { # install <name> <arguments>...
  run "$CMAKE" -S "$SOMA_SOURCE" -B build "${options[@]}" "-DCMAKE_INSTALL_PREFIX=$SOMA_WORK/$1" "${@:2}"
  run "$CMAKE" --build build --parallel 2
  run "$CMAKE" --install build
}
find_package=$SOMA_SOURCE/tests/packaging/find_package
install described -DSOMA_INSTALL_CPS=ON
project "$find_package" described_consumer "-DCMAKE_PREFIX_PATH=$SOMA_WORK/described" -DCOMPONENTS=dispatch -DWANTED_VERSION=0.3
grep -q 'soma_DIR.*/cps/soma$' described_consumer/CMakeCache.txt || fail "CMake did not take the package description"
install plain -DSOMA_INSTALL_CPS=OFF
if find plain -name '*.cps' | grep .; then fail "descriptions were installed though they are off"; fi
project "$find_package" plain_consumer "-DCMAKE_PREFIX_PATH=$SOMA_WORK/plain" "-DCOMPONENTS=dispatch;io"
