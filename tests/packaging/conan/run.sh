#!/usr/bin/env bash
# The recipe in conan/, with the system's libraries standing in for the packages (see the profiles).
# Conan comes from PyPI into a virtual environment; its home is in the build folder, the user's is not touched.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
case $(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}") in
  bookworm) profile=debian12 ;;
  trixie) profile=debian13 ;;
  *) skip "there is a profile for Debian 12 and Debian 13 only" ;;
esac
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "python3-venv is not installed"

# Kept between runs: it is the slow part.
venv=$SOMA_BUILD/conan-venv
if ! "$venv/bin/conan" --version >/dev/null 2>&1; then
  rm -rf "$venv"
  run python3 -m venv "$venv"
  if ! "$venv/bin/pip" install --quiet --disable-pip-version-check 'conan>=2,<3' >pip.log 2>&1; then
    cat pip.log
    rm -rf "$venv"
    skip "Conan could not be fetched from the Python package index"
  fi
fi
export CONAN_HOME=$SOMA_WORK/home
# The test package is configured by the recipe: no generator may be forced on it from outside.
unset CMAKE_GENERATOR
PATH=$(dirname "$CMAKE"):$PATH
export PATH
cd "$SOMA_SOURCE"
run "$venv/bin/conan" profile detect  # what a user has: a default profile, for tools that run while building
run "$venv/bin/conan" create conan -pr "conan/profiles/$profile" --no-remote \
  -c "tools.cmake.cmake_layout:test_folder=$SOMA_WORK/test_package" </dev/null

# What the headers need comes along, with an option what stands behind its header.
requires() {
  local wanted=$1 given
  shift
  "$venv/bin/conan" graph info conan -pr "conan/profiles/$profile" --no-remote --format=json "$@" \
    >"$SOMA_WORK/graph.json" 2>"$SOMA_WORK/graph.log" || { cat "$SOMA_WORK/graph.log" && fail "no graph with '$*'"; }
  given=$(python3 -c '
import json, sys
nodes = json.load(sys.stdin)["graph"]["nodes"]
print(*sorted(node["ref"].split("/")[0] for node in nodes["0"]["dependencies"].values()))' <"$SOMA_WORK/graph.json")
  [ "$given" = "highway ms-gsl${wanted:+ $wanted}" ] || fail "with '$*' the recipe requires: $given"
}
requires "xtensor"
requires "" -o "&:with_xtensor=False"
requires "nlohmann_json xtensor xxhash" -o "&:with_io=True"
requires "nlohmann_json utf8proc xtensor zlib" -o "&:with_text=True"
requires "protozero xtensor" -o "&:with_tensorboard=True"

# Nothing but headers, the licence and no machine's folder is in the package.
package=$("$venv/bin/conan" list 'soma/*:*' --format=json 2>/dev/null |
  python3 -c '
import json, sys
for versions in json.load(sys.stdin).values():
    for name, recipe in versions.items():
        for revision in recipe["revisions"].values():
            for package in revision["packages"]:
                print(name + ":" + package)')
folder=$("$venv/bin/conan" cache path "$package")
[ -f "$folder/include/soma/soma.hpp" ] || fail "no soma.hpp in the package"
[ -f "$folder/licenses/LICENSE" ] || fail "no licence in the package"
if find "$folder" -name '*.cmake' | grep .; then fail "Conan writes the CMake files itself"; fi
