# shellcheck shell=bash
# Messages and package lists that the two commands examples/run.sh and tests/run.sh share.
# To be sourced by a script that has `set -euo pipefail`.
#
# A package counts as installed if its program or library is found, wherever it came from: a compiler or a library
# from another source is respected, and nothing is installed over it.

# A command started with a closed stdin would otherwise have its first opened file take that place.
if ! { true <&0; } 2>/dev/null; then exec </dev/null; fi

soma_say() { printf '%s\n' "$*"; }

# One line that says what to do, then the end.
soma_stop() {
  local code=$1
  shift
  printf 'stopped: %s\n' "$*" >&2
  exit "$code"
}

# Runs a command with its output kept in a log, which is shown only if the command fails.
soma_quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    return 1
  fi
}

soma_has_command() { command -v "$1" >/dev/null 2>&1; }

# True if the compiler finds one of the headers.
soma_has_header() {
  local header
  soma_has_command "${CXX:-g++}" || return 1
  for header in "$@"; do
    if printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$header" |
      "${CXX:-g++}" -E -x c++ - >/dev/null 2>&1; then
      return 0
    fi
  done
  return 1
}

soma_has_package() {
  case $1 in
    g++) soma_has_command "${CXX:-g++}" ;;
    cmake) soma_has_command cmake ;;
    ninja-build) soma_has_command ninja ;;
    pkg-config) soma_has_command pkg-config ;;
    python3) soma_has_command python3 ;;
    python3-venv) soma_has_command python3 && python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    libhwy-dev) soma_has_header hwy/highway.h ;;
    libmsgsl-dev) soma_has_header gsl/assert ;;
    libxtensor-dev) soma_has_header xtensor/xarray.hpp xtensor/containers/xarray.hpp ;;
    nlohmann-json3-dev) soma_has_header nlohmann/json.hpp ;;
    libxxhash-dev) soma_has_header xxhash.h ;;
    libutf8proc-dev) soma_has_header utf8proc.h ;;
    zlib1g-dev) soma_has_header zlib.h ;;
    libcli11-dev) soma_has_header CLI/CLI.hpp ;;
    libboost-dev) soma_has_header boost/beast/http/parser.hpp ;;
    libprotozero-dev) soma_has_header protozero/pbf_writer.hpp ;;
    libpng-dev) soma_has_header png.h ;;
    libjpeg-dev) soma_has_header jpeglib.h ;;
    chromium) soma_has_command chromium || soma_has_command chromium-browser || soma_has_command google-chrome ;;
    libopenmpi-dev) soma_has_command mpicxx ;;
    openmpi-bin) soma_has_command mpirun ;;
    iproute2) soma_has_command ip ;;
    catch2) soma_has_header catch2/catch.hpp catch2/catch_test_macros.hpp ;;
    *) soma_stop 70 "no check is known for package $1 (add one in cmake/requirements.sh)" ;;
  esac
}

# soma_require <package>...: installs what is missing where it may, says how to where it may not.
soma_require() {
  local package missing=()
  for package in "$@"; do
    soma_has_package "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    soma_say "  all there"
    return
  fi
  if ! soma_has_command apt-get; then
    soma_stop 2 "missing here: ${missing[*]} (Debian's names); install your system's equivalents and start again"
  fi
  local install="apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    soma_stop 2 "packages are missing; run this as root and start again: $install"
  fi
  soma_say "  installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local options=(-q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
  apt-get "${options[@]}" update </dev/null ||
    soma_stop 1 "apt-get update failed: check the network and /etc/apt/sources.list, then start again"
  # The list is split on purpose: Debian package names hold no spaces.
  # shellcheck disable=SC2086
  apt-get "${options[@]}" ${install#apt-get } </dev/null ||
    soma_stop 1 "could not install the packages; run this and read its message: $install"
  for package in "${missing[@]}"; do
    soma_has_package "$package" ||
      soma_stop 1 "$package was installed but is not found; is a compiler other than Debian's in use?"
  done
}

# How many compilers at a time: one per core, and no more than one per 800 MiB of memory, because the largest unit of
# the programs takes less.
soma_jobs() {
  local cores memory
  cores=$(nproc 2>/dev/null || echo 1)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1024 / 800) }' /proc/meminfo 2>/dev/null || true)
  if [ "${memory:-$cores}" -lt "$cores" ]; then cores=$memory; fi
  if [ "$cores" -lt 1 ]; then cores=1; fi
  echo "$cores"
}

# soma_build <preset> <folder> [-D<name>=<value>...] [<target>...]
soma_build() {
  local preset=$1 folder=$2 settings=()
  shift 2
  while [[ ${1:-} == -D* ]]; do
    settings+=("$1")
    shift
  done
  soma_quietly "$folder/configure.log" cmake --preset "$preset" ${settings[@]+"${settings[@]}"} ||
    soma_stop 1 "CMake could not configure; see the lines above (a build folder from elsewhere: delete $folder)"
  cmake --build "$folder" --parallel "$(soma_jobs)" ${1:+--target "$@"} </dev/null ||
    soma_stop 1 "the build failed; the first error above says where"
}
