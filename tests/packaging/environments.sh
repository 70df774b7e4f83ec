#!/usr/bin/env bash
# One table: each way of using soma with each compiler, standard and machine that is here; passed, or skipped with its reason.
# Usage: bash tests/packaging/environments.sh [WORK_FOLDER] [PART]      (default: build/environments, all)
# PART: only rows that have it in their words, such as "libc++". Exit code 1 if anything failed. All of it takes about
# 20 minutes on two cores.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mkdir -p "${1:-$source/build/environments}" && cd "${1:-$source/build/environments}" && pwd)
only=${2:-}
consumer=$source/tests/packaging/consumer/main.cpp
cmake=${CMAKE:-cmake}
strict=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
results=()
failed=''

# attempt <way> <environment> <command>...: one cell of the table. A command that returns 77 is skipped, and its last
# line says why.
attempt() {
  local way=$1 environment=$2 log code=0 cell
  shift 2
  [[ "$way $environment" == *"$only"* ]] || return 0
  log=$work/log/${way// /_}.${environment//[ +]/_}.txt
  mkdir -p "$work/log"
  (cd "$work" && "$@") >"$log" 2>&1 || code=$?
  case $code in
    0) cell=passed ;;
    77) cell="skipped: $(tail -n 1 "$log")" ;;
    *)
      cell="FAILED: $log"
      failed=yes
      ;;
  esac
  results+=("$(printf '%-24s %-24s %s' "$way" "$environment" "$cell")")
  printf '%s\n' "${results[-1]}" >&2
}

skip() {
  printf '%s\n' "$*"
  exit 77
}

# compile <standard> <output> <flags>...: the consumer with strict warnings, headers not marked as the system's.
compile() {
  local standard=$1 output=$2
  shift 2
  "$CXX" "-std=c++$standard" "${strict[@]}" "$consumer" "$@" -pthread -o "$output" && "$output"
}

through_pkg_config() { # <standard>
  command -v pkg-config >/dev/null || skip "pkg-config is not installed"
  local flags
  flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig:$prefix/share/pkgconfig pkg-config --cflags --libs soma-dispatch)
  # shellcheck disable=SC2086  # a list
  "$CXX" "-std=c++$1" "${strict[@]}" "$consumer" $flags -o "$work/pkg_config" && "$work/pkg_config"
}

through_cmake() { # <folder of the project> <standard> <arguments>...
  local project=$1 standard=$2
  shift 2
  rm -rf "$work/project"
  "$cmake" -S "$project" -B "$work/project" "-DCMAKE_CXX_COMPILER=$CXX" "-DCMAKE_CXX_STANDARD=$standard" \
    "-DCMAKE_CXX_FLAGS=${strict[*]} ${extra:-}" -DCMAKE_NO_SYSTEM_FROM_IMPORTED=ON "$@" &&
    "$cmake" --build "$work/project" && "$work/project/consumer"
}

# The library by this compiler, for this machine's instruction set alone, which is quick.
install_soma() {
  "$cmake" -S "$source" -B "$work/build" "-DCMAKE_CXX_COMPILER=$CXX" "-DCMAKE_INSTALL_PREFIX=$prefix" \
    -DCMAKE_INSTALL_LIBDIR=lib -DSOMA_BUILD_TESTS=OFF -DSOMA_BUILD_EXAMPLES=OFF -DSOMA_BUILD_BENCHMARKS=OFF \
    "${targets[@]}" && "$cmake" --build "$work/build" --parallel 2 && "$cmake" --install "$work/build"
}

by_test() { # <name> <arguments>...: a test of this folder with this compiler
  SOMA_SOURCE=$source SOMA_BUILD=${build:-$work} SOMA_WORK=$work/test CMAKE=$(command -v "$cmake") \
    bash "$source/tests/packaging/$1/run.sh" "${@:2}"
}

conan_with_its_compiler() {
  case $CXX in g++*) by_test conan ;; *) skip "the profiles are for g++" ;; esac
}

targets=()
if [ "$(uname -m)" = x86_64 ]; then targets=(-DSOMA_TARGETS=BASELINE -DCMAKE_CXX_FLAGS=-march=native); fi

for CXX in g++ clang++; do
  export CXX
  prefix=$work/installed
  rm -rf "$prefix" "$work/build"
  if ! command -v "$CXX" >/dev/null; then
    results+=("$(printf '%-24s %-24s %s' 'all ways' "$CXX" 'skipped: not installed')")
    continue
  fi
  version=$("$CXX" -dumpfullversion -dumpversion | cut -d. -f1)
  attempt "install" "$CXX $version" install_soma
  # Programs with other flags than the library, and units that use soma in different ways.
  build=$work/build
  for part in hidden no_exceptions address_sanitizer debug_containers; do
    attempt "host: ${part//_/ }" "$CXX $version C++20" by_test hosts "$part"
  done
  attempt "front headers" "$CXX $version C++20" by_test front_headers
  attempt "several units" "$CXX $version C++20" by_test ways
  build=''
  for standard in 20 23; do
    name="$CXX $version C++$standard"
    # A compiler's older name of C++23.
    option=$standard
    if ! echo 'int main() {}' | "$CXX" "-std=c++$option" -x c++ -fsyntax-only - 2>/dev/null; then option=2b; fi
    attempt "include path" "$name" compile "$option" "$work/include_path" -I "$source/include"
    attempt "single header" "$name" compile "$option" "$work/single" -I "$source/single_include"
    attempt "pkg-config" "$name" through_pkg_config "$option"
    attempt "find_package" "$name" through_cmake "$source/tests/packaging/find_package" "$standard" \
      "-DCMAKE_PREFIX_PATH=$prefix" -DCOMPONENTS=dispatch
    attempt "add_subdirectory" "$name" through_cmake "$source/tests/packaging/add_subdirectory" "$standard" "-DSOMA_SOURCE=$source"
  done
  attempt "conan" "$CXX $version C++20" conan_with_its_compiler
  attempt "vcpkg" "$CXX $version C++20" by_test vcpkg
done

# libc++: headers alone, since the system's libraries are built with libstdc++.
libcxx() {
  command -v clang++ >/dev/null || skip "clang++ is not installed"
  echo '#include <vector>' | clang++ -stdlib=libc++ -x c++ -fsyntax-only - 2>/dev/null || skip "libc++ is not installed"
  CXX=clang++ "$@"
}
attempt "include path" "clang++ libc++ C++20" libcxx compile 20 "$work/libcxx" -stdlib=libc++ -I "$source/include"
attempt "single header" "clang++ libc++ C++20" libcxx compile 20 "$work/libcxx" -stdlib=libc++ -I "$source/single_include"
extra=-stdlib=libc++
attempt "add_subdirectory" "clang++ libc++ C++20" libcxx through_cmake "$source/tests/packaging/add_subdirectory" 20 "-DSOMA_SOURCE=$source"
extra=''

# Another architecture, under an emulator.
aarch64_consumer() {
  local emulator
  emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skip "qemu-user-static is not installed"
  command -v aarch64-linux-gnu-g++ >/dev/null || skip "g++-aarch64-linux-gnu is not installed"
  # Highway's and GSL's headers know every architecture; a folder of their own keeps this machine's others out.
  mkdir -p "$work/headers"
  local header
  for header in hwy/highway.h gsl/assert; do
    ln -sfn "$(echo "#include <$header>" | g++ -E -x c++ - | sed -n "s|^# 1 \"\(.*\)/$header\".*|\1|p" | head -n 1)/${header%%/*}" \
      "$work/headers/${header%%/*}"
  done
  aarch64-linux-gnu-g++ -std=c++20 "${strict[@]}" -static -isystem "$work/headers" -I "$source/include" "$consumer" -pthread \
    -o "$work/aarch64" && "$emulator" "$work/aarch64"
}
attempt "include path" "aarch64 g++ C++20" aarch64_consumer
attempt "classifier" "aarch64 g++ C++20" bash "$source/tests/portability/aarch64_classifier.sh" "$work/aarch64_classifier"

printf '\n%-24s %-24s %s\n' way environment result
printf '%s\n' "${results[@]}"
[ -z "$failed" ]
