#!/usr/bin/env bash
# The vcpkg port: by vcpkg itself where VCPKG_ROOT names its folder, otherwise its portfile in CMake's script mode, with
# stand-ins for vcpkg's functions. Then the port of a release, made by packaging/release.py.
# With the argument "full" the library is built as users have it; otherwise for one instruction set, not optimised.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# shellcheck source=tests/packaging/snippets.sh
source "$(dirname "${BASH_SOURCE[0]}")/../snippets.sh"
full=${1:-}
port=$SOMA_SOURCE/packaging/vcpkg/ports/soma
python3 - "$port/vcpkg.json" "$SOMA_SOURCE/include/soma/base/version.hpp" <<'PY' || fail "the port's version is not the header's"
import json, re, sys
header = open(sys.argv[2]).read()
version = ".".join(re.search(rf"SOMA_VERSION_{part} +(\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
sys.exit(json.load(open(sys.argv[1]))["version"] != version)
PY

if [ -n "${VCPKG_ROOT:-}" ]; then
  # The libraries are the system's: empty ports stand in for those of vcpkg, so that nothing is fetched.
  for name in highway ms-gsl xtensor nlohmann-json xxhash utf8proc zlib protozero libpng libjpeg-turbo mpi; do
    mkdir -p "system/$name"
    printf '{"name": "%s", "version": "0"}\n' "$name" >"system/$name/vcpkg.json"
    echo 'set(VCPKG_POLICY_EMPTY_PACKAGE enabled)' >"system/$name/portfile.cmake"
  done
  mkdir triplets
  cp "$VCPKG_ROOT/triplets/x64-linux.cmake" triplets/
  if [ -z "$full" ]; then
    printf 'set(VCPKG_BUILD_TYPE release)\nset(VCPKG_CMAKE_CONFIGURE_OPTIONS -DSOMA_TARGETS=%s)\n' "$quick_targets" >>triplets/x64-linux.cmake
    printf 'set(VCPKG_CXX_FLAGS %s)\nset(VCPKG_C_FLAGS "")\nset(VCPKG_CXX_FLAGS_RELEASE -O0)\nset(VCPKG_C_FLAGS_RELEASE "")\n' "$quick_flags" >>triplets/x64-linux.cmake
  fi
  export VCPKG_FORCE_SYSTEM_BINARIES=1 VCPKG_DISABLE_METRICS=1 X_VCPKG_REGISTRIES_CACHE=$SOMA_WORK/registries VCPKG_BINARY_SOURCES=clear
  export VCPKG_OVERLAY_PORTS=$SOMA_WORK/system VCPKG_OVERLAY_TRIPLETS=$SOMA_WORK/triplets
  mkdir registries
  (cd "$SOMA_SOURCE" && tar -cf - examples/train_in_a_program packaging include cmake LICENSE CMakeLists.txt single_include) | tar -xf -
  PATH=$(dirname "$CMAKE"):$PATH run bash -ec "$(snippet vcpkg 1)"
  [ -x examples/train_in_a_program/build/vcpkg/first ] || fail "the manifest's program was not built"
  echo "seen: vcpkg itself"
  exit 0
fi

configure=()
if [ -z "$full" ]; then
  configure=("-DSOMA_TARGETS=$quick_targets" "-DCMAKE_CXX_FLAGS=$quick_flags" -DCMAKE_CXX_FLAGS_RELEASE=-O0)
fi
build_port() { # build_port <port> <work folder> <features>
  mkdir -p "$2"
  run "$CMAKE" "-DPORT=$1" "-DWORK=$2" "-DFEATURES=$3" \
    "-DCONFIGURE_OPTIONS=-DCMAKE_CXX_COMPILER=$CXX;$(IFS=';' && echo "${configure[*]}")" -P "$here/stand_ins.cmake"
}
components=dispatch
for pair in io:nlohmann/json.hpp text:utf8proc.h; do
  if echo "#include <${pair#*:}>" | "$CXX" -E -x c++ - >/dev/null 2>&1; then components="$components;${pair%%:*}"; fi
done
build_port "$port" "$SOMA_WORK/port" "$components"
project "$SOMA_SOURCE/tests/packaging/find_package" consumer "-DCMAKE_PREFIX_PATH=$SOMA_WORK/port/installed" "-DCOMPONENTS=$components"

# Without features: headers, and no library.
build_port "$port" "$SOMA_WORK/headers" ""
[ ! -e headers/installed/lib ] || fail "the port without features installs a library"

# The port of a release, with the archive from this machine.
mkdir soma-release
(cd "$SOMA_SOURCE" && tar -cf - include cmake packaging conan LICENSE CMakeLists.txt) | tar -xf - -C soma-release
tar -czf release.tar.gz soma-release
run python3 -B soma-release/packaging/release.py --url "file://$SOMA_WORK/release.tar.gz" --archive release.tar.gz --output index
build_port "$SOMA_WORK/index/vcpkg/ports/soma" "$SOMA_WORK/release" ""
sed -i 's/SHA512 ./SHA512 0/' index/vcpkg/ports/soma/portfile.cmake
must_fail "hash" "$CMAKE" "-DPORT=$SOMA_WORK/index/vcpkg/ports/soma" "-DWORK=$SOMA_WORK/changed" -P "$here/stand_ins.cmake"
echo "seen: the portfile with stand-ins for vcpkg's functions (VCPKG_ROOT is not set)"
