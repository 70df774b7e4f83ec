#!/usr/bin/env bash
# Every public header stands alone, may be included twice, and is silent under strict warnings; all of them together
# follow all of the standard library, whose functions must not be found for ours by their arguments, and stand in any order.
# Files of functions (impl/x.ipp) stand alone as well, so that an editor can open them.
# The -inl files are compiled through soma.hpp, the header that they exist for (include_path compiles it whole).
# shellcheck source=tests/packaging/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# Headers that a library stands behind are left out where it is not installed.
has() {
  local condition=$1
  printf '#if !(%s)\n#error\n#endif\n' "$condition" >has.cpp
  if "$CXX" -std=c++20 -E has.cpp >/dev/null 2>&1; then echo yes; else echo no; fi
}
has_xtensor=$(has '__has_include(<xtensor/xarray.hpp>) || __has_include(<xtensor/containers/xarray.hpp>)')
has_protozero=$(has '__has_include(<protozero/pbf_writer.hpp>)')
has_images=$(has '__has_include(<png.h>) && __has_include(<jpeglib.h>)')
has_mpi=$(has '__has_include(<mpi.h>)')
has_io=$(has '__has_include(<nlohmann/json.hpp>) && __has_include(<xxhash.h>)')
has_text=$(has '__has_include(<nlohmann/json.hpp>) && __has_include(<utf8proc.h>) && __has_include(<zlib.h>)')

check() {
  local header=$1 unit
  unit=${header//\//_}
  # A header that does not stand alone fails at the first line, one that has no guard at the second.
  printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$unit.cpp"
  "$CXX" -std=c++20 "${strict[@]}" -I "$include" -fsyntax-only "$unit.cpp" || {
    echo "FAILED: $header"
    return 1
  }
  echo "ok      $header"
}

count=0
failed=0
headers=()
while read -r header; do
  case $(sed 's|/impl/\(.*\)\.ipp$|/\1.hpp|' <<<"$header") in
    soma/xtensor.hpp) [ "$has_xtensor" = yes ] || { echo "SKIPPED: $header (no xtensor)"; continue; } ;;
    soma/tensorboard.hpp | soma/io/tensorboard.hpp)
      [ "$has_protozero" = yes ] || { echo "SKIPPED: $header (no protozero)"; continue; }
      ;;
    soma/images.hpp | soma/io/images/*)
      [ "$has_images" = yes ] || { echo "SKIPPED: $header (no libpng or libjpeg)"; continue; }
      ;;
    soma/mpi.hpp | soma/parallel/mpi.hpp) [ "$has_mpi" = yes ] || { echo "SKIPPED: $header (no mpi.h)"; continue; } ;;
    soma/io.hpp | soma/io/safetensors*.hpp | soma/io/state_hash.hpp | soma/io/json*.hpp | \
      soma/io/record_json.hpp | soma/io/check*.hpp | soma/models/bert_config_json.hpp | soma/models/pretrained.hpp | \
      soma/pipeline.hpp | soma/train/pipeline.hpp | soma/train/pipeline/*.hpp)
      [ "$has_io" = yes ] || { echo "SKIPPED: $header (no nlohmann-json or xxHash)"; continue; }
      ;;
    soma/tables.hpp | soma/text.hpp | soma/text/* | soma/models.hpp | soma/models/text_classifier.hpp)
      [ "$has_text" = yes ] || { echo "SKIPPED: $header (no nlohmann-json or utf8proc)"; continue; }
      ;;
  esac
  check "$header" || failed=$((failed + 1))
  case $header in *.hpp) headers+=("$header") ;; esac
  count=$((count + 1))
done < <(cd "$include" && find soma -name '*.hpp' ! -name '*-inl.hpp' -o -name '*.ipp' | LC_ALL=C sort)

[ "$count" -gt 0 ] || fail "no headers found"
[ "$failed" -eq 0 ] || fail "$failed of $count headers"
{
  printf '#if __has_include(<bits/stdc++.h>)\n#include <bits/stdc++.h>\n#endif\n'
  printf '#include <%s>\n' "${headers[@]}"
} >together.cpp
run "$CXX" -std=c++20 "${strict[@]}" -I "$include" -fsyntax-only together.cpp
# In the reverse order too (but for api.hpp and whole.hpp, which ask to be the first): no name of an inner namespace hides one
# that a later header means.
printf '#include <%s>\n' "${headers[@]}" | grep -vE '<soma/(api|whole)\.hpp>' | tac >backwards.cpp
for dispatch in -USOMA_DISPATCH -DSOMA_DISPATCH=1; do
  run "$CXX" -std=c++20 "$dispatch" "${strict[@]}" -I "$include" -fsyntax-only backwards.cpp
done
echo "$count headers"
