#!/usr/bin/env bash
# Builds and runs parts of soma for other systems, and prints a table: target, part, and what became of it.
# Usage: bash tests/portability/platforms.sh WORK_FOLDER [TARGET...]
# Targets, by compiler:
#   g++-mingw-w64-x86-64-posix, and wine to run   windows; windows-library: CMake with cmake/mingw.cmake builds soma::dispatch
#     and its halves, which takes the time of the library; windows-header: all headers are read
#   PyPI's ziglang, a clang with the headers of these systems (set ZIG to "python -m ziglang" of an environment that has it)
#     musl, macos-x86_64, macos-aarch64, windows-clang (wine to run), wasm, wasm-relaxed (node to run)
#   clang++ with -stdlib=libc++   libc++
#   g++ -m32   i386
# The part "classifier" (text, models, checkpoints) needs the sources of utf8proc and zlib: set LIBRARIES to a folder with
# checkouts of both projects, utf8proc/ and zlib/; windows-library also wants highway/. The part is skipped without.
# "same bits": the output has the hashes of this machine's own build.
# Exit code: 0 all that could be tried holds, 1 something does not, 77 nothing could be tried.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=${1:?usage: platforms.sh WORK_FOLDER [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} = 0 ]; then targets=(windows windows-library musl libc++ wasm wasm-relaxed macos-x86_64 macos-aarch64 windows-clang i386); fi
zig=${ZIG:-python3 -m ziglang}
mkdir -p "$work/foreign"
work=$(cd "$work" && pwd)
here=$root/tests/portability
# Header-only libraries of this machine, in a folder that keeps its other headers out.
for header in hwy gsl nlohmann xxhash.h utf8proc.h; do
  if [ -e "/usr/include/$header" ]; then ln -sfn "/usr/include/$header" "$work/foreign/$header"; fi
done
common=(-std=c++20 -O2 -DSOMA_QUIET -DXXH_INLINE_ALL -DUTF8PROC_STATIC -I "$root/include" -I "$root/tests" -isystem "$work/foreign")
fused=(-march=x86-64-v3)
failed=0 tried=0
libraries=${LIBRARIES:-}

row() { printf '%-16s %-8s %s\n' "$1" "$2" "$3"; }
source_of() {
  case $1 in
    digits) echo "$root/examples/digits/main.cpp" ;;
    *) echo "$here/$1.cpp" ;;
  esac
}
# The lines of the output that have to be the same on every system.
bits_of() { grep -aoE '^(mlp|convnet|[^ ].*) +.*[0-9a-f]{16}' "$1" | sed -E 's/ [0-9]+\.[0-9] +([0-9a-f]{16})/ \1/' | tr -d '\r'; }

# The same program of this machine, made when it is first needed.
reference() {
  local part=$1
  if [ ! -e "$work/$part.expected" ]; then
    local linked=()
    if [ "$part" = classifier ]; then linked=(-lutf8proc -lz); fi
    g++ "${common[@]}" "${fused[@]}" "$(source_of "$part")" -o "$work/$part.own" -pthread "${linked[@]}"
    (cd "$work" && "./$part.own" own_files) >"$work/$part.expected" 2>&1
  fi
}

# part TARGET PART RUN COMMAND...: builds the part into $work/TARGET.PART and runs it with RUN ("": only links).
part() {
  local target=$1 name=$2 run=$3 output=$work/$1.$2
  shift 3
  tried=$((tried + 1))
  if ! "$@" "${common[@]}" "$(source_of "$name")" -o "$output" >"$output.log" 2>&1; then
    row "$target" "$name" "does not compile: $output.log"
    failed=1
    return
  fi
  if [ -z "$run" ]; then
    row "$target" "$name" "links"
    return
  fi
  # shellcheck disable=SC2086
  if ! (cd "$work" && timeout 600 $run "$output" "files_of_$target") >"$output.txt" 2>&1; then
    row "$target" "$name" "fails: $output.txt"
    failed=1
    return
  fi
  if [ "$name" = files ]; then
    row "$target" "$name" "runs"
    return
  fi
  reference "$name"
  if diff <(bits_of "$work/$name.expected") <(bits_of "$output.txt") >"$output.diff"; then
    row "$target" "$name" "same bits"
  else
    row "$target" "$name" "other bits: $output.diff"
    [ "$target" = wasm ] || [ "$target" = i386 ] || failed=1
  fi
}

# classifier TARGET RUN C_COMPILER -- COMMAND...: the part that needs libraries, which the C compiler makes.
classifier() {
  local target=$1 run=$2 compile=() objects=() source
  shift 2
  while [ "$1" != -- ]; do
    compile+=("$1")
    shift
  done
  shift
  if [ ! -e "$libraries/utf8proc/utf8proc.c" ] || [ ! -e "$libraries/zlib/zlib.h" ]; then
    row "$target" classifier "skipped: needs LIBRARIES with utf8proc/ and zlib/"
    return
  fi
  mkdir -p "$work/$target.libraries"
  for source in "$libraries"/utf8proc/utf8proc.c "$libraries"/zlib/*.c; do
    objects+=("$work/$target.libraries/$(basename "$source" .c).o")
    "${compile[@]}" -O2 -DUTF8PROC_STATIC -DHAVE_UNISTD_H -c "$source" -o "${objects[-1]}" >"$work/$target.libraries/log" 2>&1 || {
      row "$target" classifier "a library does not compile: $work/$target.libraries/log"
      failed=1
      return
    }
  done
  part "$target" classifier "$run" "$@" -I "$libraries/zlib" "${objects[@]}"
}

# windows_header TARGET FLAG: the real <windows.h> behind soma, and before it with the flag.
windows_header() {
  tried=$((tried + 1))
  # shellcheck disable=SC2086
  if x86_64-w64-mingw32-g++-posix "${common[@]}" $2 -fsyntax-only "$here/windows_header.cpp" >"$work/windows_header.log" 2>&1; then
    row "$1" header "windows.h ${2:+before and }after soma compiles"
  else
    row "$1" header "does not compile: $work/windows_header.log"
    failed=1
  fi
}

have_zig() { $zig version >/dev/null 2>&1; }

row target part result
for target in "${targets[@]}"; do
  case $target in
    windows)
      compiler=x86_64-w64-mingw32-g++-posix
      if ! command -v "$compiler" >/dev/null; then
        row "$target" "" "skipped: needs g++-mingw-w64-x86-64-posix"
        continue
      fi
      # Stacks are aligned to 16 bytes there, which g++ forgets with AVX; Debian's carries a patch.
      flags=("${fused[@]}" "-Wa,-muse-unaligned-vector-move" -static)
      emulator=$(command -v wine64 || command -v wine || true)
      export WINEDEBUG=-all WINEPREFIX=$work/wine
      for name in digits bits files; do part "$target" "$name" "$emulator" "$compiler" "${flags[@]}"; done
      classifier "$target" "$emulator" x86_64-w64-mingw32-gcc-posix -- "$compiler" "${flags[@]}"
      for first in "" -DSOMA_TEST_WINDOWS_FIRST; do windows_header "$target" "$first"; done
      ;;
    windows-library)
      if ! command -v x86_64-w64-mingw32-g++-posix >/dev/null || [ ! -e "$libraries/highway/CMakeLists.txt" ]; then
        row "$target" "" "skipped: needs g++-mingw-w64-x86-64-posix, and LIBRARIES with highway/, utf8proc/ and zlib/"
        continue
      fi
      tried=$((tried + 1))
      if ! { cmake -S "$here/cross" -B "$work/$target" "-DCMAKE_TOOLCHAIN_FILE=$root/cmake/mingw.cmake" -DCMAKE_BUILD_TYPE=Release \
        "-DLIBRARIES=$libraries" "-DHEADERS=$work/foreign" -DSOMA_TARGETS=AVX2 &&
        cmake --build "$work/$target" --parallel 2; } >"$work/$target.log" 2>&1; then
        row "$target" library "does not build: $work/$target.log"
        failed=1
        continue
      fi
      reference classifier
      export WINEDEBUG=-all WINEPREFIX=$work/wine
      emulator=$(command -v wine64 || command -v wine || true)
      if [ -z "$emulator" ]; then
        row "$target" library "builds"
      elif (cd "$work" && "$emulator" "$target/classifier.exe" files_of_library) >"$work/$target.txt" 2>&1 &&
        diff <(bits_of "$work/classifier.expected") <(bits_of "$work/$target.txt") >"$work/$target.diff"; then
        row "$target" library "same bits"
      else
        row "$target" library "fails: $work/$target.txt"
        failed=1
      fi
      ;;
    windows-header)
      if ! command -v x86_64-w64-mingw32-g++-posix >/dev/null; then
        row "$target" "" "skipped: needs g++-mingw-w64-x86-64-posix"
        continue
      fi
      windows_header "$target" -DSOMA_TEST_WINDOWS_FIRST
      ;;
    musl | macos-x86_64 | macos-aarch64 | windows-clang | wasm | wasm-relaxed)
      if ! have_zig; then
        row "$target" "" "skipped: needs PyPI's ziglang (ZIG=\"python3 -m ziglang\")"
        continue
      fi
      # shellcheck disable=SC2206
      clang=($zig c++)
      case $target in
        musl)
          clang+=(-target x86_64-linux-musl -mcpu=x86_64_v3 -static)
          for name in digits bits files; do part "$target" "$name" env "${clang[@]}"; done
          # shellcheck disable=SC2086
          classifier "$target" env $zig cc -target x86_64-linux-musl -- "${clang[@]}"
          ;;
        macos-x86_64) part "$target" digits "" "${clang[@]}" -target x86_64-macos -mcpu=x86_64_v3 ;;
        macos-aarch64) part "$target" digits "" "${clang[@]}" -target aarch64-macos ;;
        windows-clang)
          export WINEDEBUG=-all WINEPREFIX=$work/wine
          part "$target" digits "$(command -v wine64 || command -v wine || true)" "${clang[@]}" -target x86_64-windows-gnu -mcpu=x86_64_v3
          ;;
        wasm | wasm-relaxed)
          emulator="" cpu=generic+simd128
          if command -v node >/dev/null; then emulator="node --no-warnings $here/wasi.mjs"; fi
          if [ "$target" = wasm-relaxed ]; then
            cpu+=+relaxed_simd
            # Older versions have it behind an option.
            option=--experimental-wasm-relaxed-simd
            if node --v8-options 2>/dev/null | grep -q -e "$option"; then emulator=${emulator/node/node $option}; fi
          fi
          # Without exceptions: that system's C++ library has none. examples/browser is what learns there.
          part "$target" bits "$emulator" "${clang[@]}" -target wasm32-wasi -mcpu=$cpu -fno-exceptions
          ;;
      esac
      ;;
    libc++)
      if ! echo '#include <vector>' | clang++ -stdlib=libc++ -x c++ -fsyntax-only - 2>/dev/null; then
        row "$target" "" "skipped: needs clang++ and libc++-dev"
        continue
      fi
      for name in digits bits files; do part "$target" "$name" env clang++ -stdlib=libc++ "${fused[@]}" -pthread; done
      classifier "$target" env clang -- clang++ -stdlib=libc++ "${fused[@]}" -pthread
      ;;
    i386)
      if ! echo '#include <vector>' | g++ -m32 -x c++ -fsyntax-only - 2>/dev/null; then
        row "$target" "" "skipped: needs g++-multilib"
        continue
      fi
      part "$target" digits env g++ -m32 "${fused[@]}" -mfpmath=sse -pthread
      ;;
    *)
      echo "no such target: $target" >&2
      exit 2
      ;;
  esac
done
if [ "$tried" = 0 ]; then exit 77; fi
exit "$failed"
