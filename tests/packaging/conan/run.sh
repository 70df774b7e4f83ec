#!/usr/bin/env bash
# The lines of docs/packages.md for Conan, with the system's libraries standing in for the packages (see the profiles).
# Conan comes from PyPI into a virtual environment; its home is in the build folder, the user's is not touched.
# With the argument "full" the library is built as users have it; otherwise for one instruction set, not optimised.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
# shellcheck source=tests/packaging/snippets.sh
source "$(dirname "${BASH_SOURCE[0]}")/../snippets.sh"
full=${1:-}
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
  install=$(snippet Conan 1 | head -n 1)
  if ! PATH=$venv/bin:$PATH bash -ec "$install --quiet --disable-pip-version-check" >pip.log 2>&1; then
    cat pip.log
    rm -rf "$venv"
    skip "Conan could not be fetched from the Python package index"
  fi
fi
export CONAN_HOME=$SOMA_WORK/home
# The test package is configured by the recipe: no generator may be forced on it from outside.
unset CMAKE_GENERATOR
PATH=$venv/bin:$(dirname "$CMAKE"):$PATH
export PATH

# The checkout, copied, so that whatever is left behind is seen.
mkdir checkout
(cd "$SOMA_SOURCE" && tar -cf - --exclude=./build --exclude=./.git .) | tar -xf - -C checkout
listed() { (cd checkout && find . | sort); }
listed >before.txt

# The command that a new user types, on a Conan without profiles.
create=$(snippet Conan 1 | tail -n 1)
create=${create//debian12/$profile}
quick=()
if [ -z "$full" ]; then
  quick=(-o "&:targets=$quick_targets" -c "tools.build:cxxflags=['$quick_flags']"
    -c "tools.cmake.cmaketoolchain:extra_variables={'CMAKE_CXX_FLAGS_RELEASE': '-O0'}")
fi
(cd checkout && run bash -ec "$create \"\$@\"" create "${quick[@]}" </dev/null)
listed >after.txt
diff before.txt after.txt || fail "conan create left something behind in the checkout"

if [ -n "$full" ]; then
  # The consumer's step, word by word: it is another program's folder, where presets may be written.
  consume=$(snippet Conan 2)
  (cd checkout && run bash -ec "${consume//debian12/$profile}" </dev/null)
  [ -x checkout/examples/train_in_a_program/build/Release/first ] || fail "the consumer's program was not built"
else
  cp -r "$SOMA_SOURCE"/tests/packaging/{consumer,find_package} .
  cp "$SOMA_SOURCE/examples/train_in_a_program/conanfile.txt" find_package/
  (cd find_package && run conan install . -pr:a "../checkout/conan/profiles/$profile" --no-remote "${quick[@]/&:/soma\/*:}" &&
    run cmake --preset conan-release "-DCOMPONENTS=dispatch;io;text;models" -DCMAKE_CXX_FLAGS_RELEASE= &&
    run cmake --build --preset conan-release && run build/Release/consumer)
fi

# The headers alone: one package for every compiler and build type.
(cd checkout && run conan create conan -pr:a "conan/profiles/$profile" --no-remote -o '&:header_only=True' -tf '' \
  -s build_type=Debug)
identity() {
  (cd checkout && conan graph info conan -pr:a "conan/profiles/$profile" --no-remote --format=json "$@" 2>"$SOMA_WORK/graph.log" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["graph"]["nodes"]["0"]["package_id"])')
}
[ "$(identity -o '&:header_only=True')" = "$(identity -o '&:header_only=True' -s build_type=Debug)" ] ||
  fail "header_only: the package depends on the build type"
[ "$(identity)" != "$(identity -s build_type=Debug)" ] || fail "the library's package does not depend on the build type"
[ "$(identity)" != "$(identity -o '&:shared=True')" ] || fail "shared and static are one package"
[ "$(identity)" = "$(identity -o '&:with_tensorboard=True')" ] || fail "an option that only adds a requirement makes another package"
[ "$(identity)" != "$(identity -o '&:with_text=True')" ] || fail "the compiled half of a component makes no other package"

# The requirements of the headers are always present; an option adds the requirements of its header.
requires() {
  local wanted=$1 given
  shift
  given=$(cd checkout && conan graph info conan -pr:a "conan/profiles/$profile" --no-remote --format=json "$@" \
    2>"$SOMA_WORK/graph.log" | python3 -c '
import json, sys
nodes = json.load(sys.stdin)["graph"]["nodes"]
print(*sorted(node["ref"].split("/")[0] for node in nodes["0"]["dependencies"].values()))')
  wanted=$(printf '%s\n' highway ms-gsl $wanted | LC_ALL=C sort | xargs)
  [ "$given" = "$wanted" ] || { cat "$SOMA_WORK/graph.log" && fail "with '$*' the recipe requires: $given"; }
}
requires "xtensor"
requires "" -o "&:with_xtensor=False"
requires "nlohmann_json xtensor xxhash" -o "&:with_io=True"
requires "nlohmann_json utf8proc xtensor zlib" -o "&:with_text=True"
requires "protozero xtensor" -o "&:with_tensorboard=True"
requires "libjpeg-turbo libpng xtensor" -o "&:with_images=True"
requires "openmpi xtensor" -o "&:with_mpi=True"

# The library, headers and the licence are in the package, and no machine's folder is.
for package in $(conan list 'soma/*:*' --format=json 2>/dev/null | python3 -c '
import json, sys
for versions in json.load(sys.stdin).values():
    for name, recipe in versions.items():
        for revision in recipe["revisions"].values():
            for package in revision["packages"]:
                print(name + ":" + package)'); do
  folder=$(conan cache path "$package")
  [ -f "$folder/include/soma/soma.hpp" ] || fail "no soma.hpp in $package"
  [ -f "$folder/licenses/LICENSE" ] || fail "no licence in $package"
  [ -f "$folder/cmake/soma-custom-operators.cmake" ] || fail "no soma_add_custom_operators() in $package"
  if find "$folder" \( -name '*.cmake' -o -name '*.pc' \) ! -name soma-custom-operators.cmake | grep .; then
    fail "Conan writes these files itself"
  fi
  if [ -f "$folder/lib/libsoma_dispatch.a" ]; then library=$folder/lib/libsoma_dispatch.a; fi
done
[ -n "${library:-}" ] || fail "no package has the library"
echo "library: $library"

# An index's recipe of a release, made from this one: the archive is fetched and packaged. An index asks for exact
# versions of other packages; those of the profile are the ones that this machine stands in for.
mv checkout soma-release
tar -czf release.tar.gz soma-release
mapfile -t exact < <(sed -n '/^\[platform_requires\]/,/^\[conf\]/{s|^[a-z].*/.*|--require=&|p}' "soma-release/conan/profiles/$profile")
run python3 -B soma-release/packaging/release.py --url "file://$SOMA_WORK/release.tar.gz" --archive release.tar.gz \
  --output index "${exact[@]}"
run conan create index/conan/recipes/soma/all -pr:a "soma-release/conan/profiles/$profile" -o '&:header_only=True' -tf '' \
  --no-remote --version "$(sed -n 's/^  "\(.*\)":$/\1/p' index/conan/recipes/soma/config.yml)"
must_fail "is there already" python3 -B soma-release/packaging/release.py --url file:///x --archive release.tar.gz --output index
must_fail "no archive of soma" python3 -B soma-release/packaging/release.py --url file:///x --archive before.txt --output other
must_fail "wanted https" python3 -B soma-release/packaging/release.py --url ftp://x --archive release.tar.gz --output other
[ ! -e other ] || fail "a refused call left a folder"
