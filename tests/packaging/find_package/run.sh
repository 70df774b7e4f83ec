#!/usr/bin/env bash
# Installed, then moved: found by name, with and without its components; a version that is not there is refused. Without
# the argument "full" one program is built, which takes the compiled halves, and refusals are seen; with it each component.
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
full=${1:-}
run "$CMAKE" --install "$SOMA_BUILD" --prefix "$SOMA_WORK/first" >install.log
mv first moved
# (The library is left out: a compiler may note its working folder in it. A short path, such as /soma, must not
# be seen in the middle of another one.)
for folder in "$SOMA_SOURCE" "$SOMA_WORK"; do
  # shellcheck disable=SC2001  # one substitution with a class and a back reference
  pattern="(^|-[IL]|[^[:alnum:]_.}/-])$(sed 's/[][(){}.*+?^$|\\]/\\&/g' <<<"$folder")(/|[^[:alnum:]_./-]|\$)"
  if grep -rE "$pattern" --exclude='*.a' moved; then named=yes; fi
done
if [ -n "${named:-}" ]; then
  fail "the files above name a folder of the machine they were built on"
fi
version=$(sed -n 's/.*PACKAGE_VERSION "\(.*\)").*/\1/p' moved/share/cmake/soma/soma-config-version.cmake | head -n 1)
[ -n "$version" ] || fail "no version in the version file"
minor=${version%.*}

at() { project "$here" "$1" "-DCMAKE_PREFIX_PATH=$SOMA_WORK/moved" "${@:2}"; }
if [ -n "$full" ]; then
  at headers "-DWANTED_VERSION=$minor"
  for component in dispatch xtensor io tensorboard images mpi text models; do
    if [ -f "moved/share/cmake/soma/soma-$component-targets.cmake" ] ||
      { [ "$component" = dispatch ] && [ -n "$(find moved -name 'libsoma_dispatch*' -print -quit)" ]; }; then
      at "$component" "-DCOMPONENTS=$component"
    fi
  done
fi
# The compiled halves, which a consumer that links soma::dispatch needs.
if [ -n "$(find moved -name 'libsoma_models*' -print -quit)" ]; then
  at compiled "-DCOMPONENTS=models;dispatch" "-DWANTED_VERSION=$minor"
elif [ -z "$full" ]; then
  at headers "-DWANTED_VERSION=$minor"
fi

if [ -n "$full" ]; then
  # shellcheck source=tests/packaging/custom_operators/operators.sh
  source "$SOMA_SOURCE/tests/packaging/custom_operators/operators.sh"
fi

configure=("$CMAKE" -S "$here" "-DCMAKE_CXX_COMPILER=$CXX" "-DCMAKE_PREFIX_PATH=$SOMA_WORK/moved")
must_fail "version" "${configure[@]}" -B newer "-DWANTED_VERSION=${minor%.*}.$((${minor#*.} + 1))"
must_fail "nonsense" "${configure[@]}" -B unknown -DCOMPONENTS=nonsense

# A component that is linked and was not asked for: the line that is missing. In a folder below, too.
mkdir -p forgetful/below
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(forgetful CXX)' 'find_package(soma REQUIRED)' 'add_subdirectory(below)' \
  >forgetful/CMakeLists.txt
printf '%s\n' "add_library(lib \"$consumer/main.cpp\")" 'target_link_libraries(lib PUBLIC soma::${LINKED})' >forgetful/below/CMakeLists.txt
forgetful=("$CMAKE" -S forgetful "-DCMAKE_CXX_COMPILER=$CXX" "-DCMAKE_PREFIX_PATH=$SOMA_WORK/moved")
if [ -n "$(find moved -name 'libsoma_dispatch*' -print -quit)" ]; then
  must_fail "'lib' links soma::dispatch: write find_package(soma COMPONENTS dispatch)" "${forgetful[@]}" -B forgot -DLINKED=dispatch
fi
cp -r moved without
rm -f without/share/cmake/soma/soma-text-targets*.cmake
forgetful[4]=-DCMAKE_PREFIX_PATH=$SOMA_WORK/without
must_fail "libutf8proc-dev" "${forgetful[@]}" -B forgot_text -DLINKED=text
must_fail "libutf8proc-dev" "$CMAKE" -S "$here" -B no_text "-DCMAKE_CXX_COMPILER=$CXX" "-DCMAKE_PREFIX_PATH=$SOMA_WORK/without" \
  -DCOMPONENTS=text
run "${forgetful[@]}" -B remembered -DLINKED=soma

# A component that lacks its library: the others are there for who can do without it, who cannot is told what it needs.
if [ -f moved/share/cmake/soma/soma-models-targets.cmake ]; then
  mkdir choosy
  cat >choosy/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(choosy LANGUAGES CXX)
find_package(soma CONFIG REQUIRED COMPONENTS ${COMPONENTS} OPTIONAL_COMPONENTS ${OPTIONAL})
find_package(soma CONFIG REQUIRED COMPONENTS io)  # by another part of the program
if(soma_models_FOUND OR soma_nonsense_FOUND OR TARGET soma::models OR NOT TARGET soma::io)
  message(FATAL_ERROR "components are not as found: ${soma_models_FOUND} ${soma_nonsense_FOUND}")
endif()
CMAKE
  configure[2]=choosy
  configure+=(-DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON)
  run "${configure[@]}" -B choosy_optional "-DOPTIONAL=models;dispatch;nonsense"
  must_fail zlib1g-dev "${configure[@]}" -B choosy_models -DCOMPONENTS=models
  must_fail zlib1g-dev "${configure[@]}" -B choosy_text "-DCOMPONENTS=io;text"
fi
