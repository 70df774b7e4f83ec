#!/usr/bin/env bash
# A 256 x 256 product in programs that got soma through Conan and vcpkg beside one that links the checkout's soma::dispatch:
# alternated 21 times, the median of the ratios.
# Usage: bash bench/compare_packages.sh [WORK_FOLDER] [--rounds N]      (default: build/packages)
# Needs Conan on the path (python3 -m pip install conan); vcpkg's portfile is run with stand-ins for vcpkg's functions.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
folder=$source/build/packages rounds=21
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=${2:?--rounds needs a number} && shift ;;
    *) folder=$1 ;;
  esac
  shift
done
work=$(mkdir -p "$folder" && cd "$folder" && pwd)
case $(. /etc/os-release && echo "${VERSION_CODENAME:-}") in
  bookworm) profile=debian12 ;;
  trixie) profile=debian13 ;;
  *) echo "there is a Conan profile for Debian 12 and 13 only" >&2 && exit 2 ;;
esac
mkdir -p "$work/program"
cat >"$work/program/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.22)
project(product LANGUAGES CXX)
if(CHECKOUT)
  add_subdirectory("\${CHECKOUT}" soma)
else()
  find_package(soma CONFIG REQUIRED COMPONENTS dispatch)
endif()
add_executable(product "$source/tests/packaging/consumer/product.cpp")
target_link_libraries(product PRIVATE soma::dispatch)
CMAKE
printf '[requires]\nsoma/[>=0]\n[generators]\nCMakeDeps\nCMakeToolchain\n' >"$work/program/conanfile.txt"

build() { # build <name> <arguments>...
  local name=$1
  shift
  cmake -S "$work/program" -B "$work/$name" -DCMAKE_BUILD_TYPE=Release "$@" >"$work/$name.log" 2>&1 &&
    cmake --build "$work/$name" --parallel >>"$work/$name.log" 2>&1 || { tail -n 20 "$work/$name.log" >&2 && exit 1; }
}
build checkout "-DCHECKOUT=$source"
export CONAN_HOME=$work/conan_home
(cd "$source" && conan create conan -pr:a "conan/profiles/$profile" --no-remote &&
  conan install "$work/program" -of "$work/conan_files" -pr:a "conan/profiles/$profile" --no-remote) >"$work/conan_create.log" 2>&1 ||
  { tail -n 20 "$work/conan_create.log" >&2 && exit 1; }
build conan -G Ninja "-DCMAKE_TOOLCHAIN_FILE=$work/conan_files/conan_toolchain.cmake"
cmake "-DPORT=$source/packaging/vcpkg/ports/soma" "-DWORK=$work/port" -DFEATURES=dispatch \
  -P "$source/tests/packaging/vcpkg/stand_ins.cmake" >"$work/port.log" 2>&1 || { tail -n 20 "$work/port.log" >&2 && exit 1; }
build vcpkg "-DCMAKE_PREFIX_PATH=$work/port/installed"

python3 - "$rounds" "$work" <<'PY'
import statistics, subprocess, sys
rounds, work = int(sys.argv[1]), sys.argv[2]
rates = {name: [] for name in ("checkout", "conan", "vcpkg")}
for _ in range(rounds):
    for name, seen in rates.items():
        seen.append(float(subprocess.run([f"{work}/{name}/product"], check=True, capture_output=True, text=True).stdout))
print(f"checkout: {statistics.median(rates['checkout']):.0f} GFLOP/s, one thread")
for name in ("conan", "vcpkg"):
    print(f"{name}: {statistics.median(a / b for a, b in zip(rates[name], rates['checkout'])):.3f} of it")
PY
