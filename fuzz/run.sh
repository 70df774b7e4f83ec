#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each. Usage: bash fuzz/run.sh [SECONDS] [NAME ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'HELP'
usage: bash fuzz/run.sh [SECONDS] [NAME ...]

Builds the fuzz targets into build/fuzz with clang++ (CXX chooses another clang) and runs each of NAME, or all, for
SECONDS (60). Inputs that a target learns are kept in build/fuzz/corpus/NAME, findings in build/fuzz/findings/NAME.
Exit code: 0; 1 if there is a finding or a target is not built; 2 if clang is missing.
HELP
}
case ${1:-} in --help | -h) usage && exit 0 ;; esac
seconds=60
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi

# shellcheck source=cmake/requirements.sh
source cmake/requirements.sh
compiler=${CXX:-clang++}
soma_has_command "$compiler" || soma_stop 2 "no $compiler (Debian: apt-get install clang)"

soma_say "[1/2] building into build/fuzz"
soma_quietly build/fuzz/configure.log cmake -S . -B build/fuzz -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSOMA_BUILD_FUZZERS=ON -DSOMA_WITH_TEXT=ON -DSOMA_WITH_IO=ON \
  -DSOMA_BUILD_TESTS=OFF -DSOMA_BUILD_EXAMPLES=OFF -DSOMA_BUILD_BENCHMARKS=OFF -DSOMA_BUILD_DISPATCH=OFF ||
  soma_stop 1 "CMake could not configure; see the lines above"
cmake --build build/fuzz --parallel "$(soma_jobs)" </dev/null || soma_stop 1 "the build failed"

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for source in fuzz/*_fuzz.cpp; do
    name=$(basename "$source" _fuzz.cpp)
    names+=("$name")
  done
fi
soma_say "[2/2] fuzzing: $seconds seconds for each of ${names[*]}"
failed=()
for name in "${names[@]}"; do
  program=build/fuzz/fuzz/${name}_fuzz
  [ -x "$program" ] || soma_stop 1 "no fuzz target $name"
  mkdir -p "build/fuzz/corpus/$name" "build/fuzz/findings/$name"
  if "$program" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$name/" "build/fuzz/corpus/$name" "fuzz/corpus/$name" \
    >"build/fuzz/$name.log" 2>&1 </dev/null; then
    soma_say "  $name: $(grep -o 'number_of_executed_units: .*' "build/fuzz/$name.log") inputs, no finding"
  else
    tail -n 40 "build/fuzz/$name.log" >&2
    soma_say "  $name: FINDING, see build/fuzz/$name.log and build/fuzz/findings/$name"
    failed+=("$name")
  fi
done
[ ${#failed[@]} -eq 0 ] || soma_stop 1 "findings in ${failed[*]}"
