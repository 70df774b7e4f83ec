#!/usr/bin/env bash
# Builds and runs an example, installing what is missing. Usage: bash examples/run.sh [example] [its arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = "--help" ] || [ "${1:-}" = "-h" ]; then
  cat <<'HELP'
usage: bash examples/run.sh [example] [arguments]

Builds an example and runs it with the arguments given.
  bert_classifier   the default: trains a text classifier, saves it in build/reviews_model, and asks it. Arguments go to
                    `bert_classifier train`, for example: bash examples/run.sh --data reviews.tsv --output model
  language_model    trains, measures and writes text: bash examples/run.sh language_model train --help
  extreme_classifier  very many classes: bash examples/run.sh extreme_classifier train --help
  digits            trains two networks to read digits
  digits_batch_norm  a net of digits with batch norms and without (bash examples/run.sh digits_batch_norm --help)
  tabular_regression  predicts a column of a table (bash examples/run.sh tabular_regression --help)
  character_model   learns which character follows, and writes text (bash examples/run.sh character_model --help)
  mnist_pipeline    a net of digits, cut into stages (bash examples/run.sh mnist_pipeline --help)
  custom_operator   four operators of one's own in a classifier of digits
  precision_study   trains one task in several number formats and compares (bash examples/run.sh precision_study --help)
  numeric_tour      formats, stochastic rounding, this machine
  kernel_NAME       a kernel for the accelerator's core: one of examples/kernels, such as kernel_rotary

  1. installs the packages that are missing (as root on Debian or a relative; otherwise it says which)
  2. builds into build/release, with the kernels of this CPU only (for any CPU: cmake --preset release, then build)
  3. runs build/release/bin/<example>
Exit code: the program's; 2 if packages are missing and cannot be installed; 1 if a step failed.
HELP
  exit 0
fi

example=bert_classifier
case ${1:-} in
  kernel_* | bert_classifier | language_model | extreme_classifier | numeric_tour | digits | digits_batch_norm | mnist_pipeline | tabular_regression | character_model | custom_operator | precision_study)
    example=$1
    shift
    ;;
  -* | "") ;;
  *)
    echo "examples/run.sh: no example is called \"$1\"; bash examples/run.sh --help lists them" >&2
    exit 1
    ;;
esac

# shellcheck source=cmake/requirements.sh
source cmake/requirements.sh

soma_say "[1/3] compiler, CMake, Ninja, libraries"
packages=(g++ cmake ninja-build libhwy-dev libmsgsl-dev)
if [ "$example" = bert_classifier ] || [ "$example" = language_model ] || [ "$example" = extreme_classifier ]; then
  packages+=(nlohmann-json3-dev libxxhash-dev libutf8proc-dev zlib1g-dev libprotozero-dev libcli11-dev
    libboost-dev)
fi
if [ "$example" = digits_batch_norm ]; then
  packages+=(libcli11-dev)
fi
if [ "$example" = mnist_pipeline ] || [ "$example" = character_model ]; then
  packages+=(nlohmann-json3-dev libxxhash-dev libcli11-dev)
fi
if [ "$example" = precision_study ] || [ "$example" = tabular_regression ]; then
  packages+=(nlohmann-json3-dev libxxhash-dev libutf8proc-dev zlib1g-dev libcli11-dev)
fi
soma_require "${packages[@]}"
soma_say "[2/3] building $example into build/release"
targets=NATIVE
if grep -qs '^SOMA_TARGETS:[A-Z]*=$' build/release/CMakeCache.txt; then
  targets=''  # somebody has built the whole library there
else
  soma_say "  only this CPU's kernels and the fallback; the full library: cmake --preset release && cmake --build build/release"
fi
soma_build release build/release "-DSOMA_TARGETS=$targets" "$example"
if [ "$example" != bert_classifier ]; then
  soma_say "[3/3] build/release/bin/$example $*"
  exec "build/release/bin/$example" "$@"
fi

if [ "$#" -gt 0 ]; then
  soma_say "[3/3] build/release/bin/bert_classifier train $*"
  exec build/release/bin/bert_classifier train "$@"
fi
model=build/reviews_model
soma_say "[3/3] build/release/bin/bert_classifier train --output $model --price-per-hour 0.10"
build/release/bin/bert_classifier train --output "$model" --price-per-hour 0.10
soma_say "three sentences, build/release/bin/bert_classifier predict --model $model"
for text in "The handle of the lamp is really practical." \
  "Although the hinge looks lovely to me, I found the lid quite awful." \
  "Nothing about the kettle is bad."; do
  printf '%s\t%s\n' "$(printf '%s\n' "$text" | build/release/bin/bert_classifier predict --model "$model")" "$text"
done
