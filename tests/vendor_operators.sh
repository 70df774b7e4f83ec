#!/usr/bin/env bash
# The vendor's public sources of custom operators, compiled unchanged, loaded and run:
#
#   bash tests/vendor_operators.sh SAMPLES_GIT SDK_GIT [BUILD_FOLDER]
#
# with clones (or the git folders of clones) of aws-neuron/aws-neuron-samples and aws-neuron/aws-neuron-sdk. Nothing of
# them is in this repository, and nothing is left of them. BUILD_FOLDER is one of tests, build/tests by default. From the
# samples it takes the folders customop_mlp, from the documentation the code blocks with whole operators.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${3:-$root/build/tests}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --no-checkout "$1" "$work/samples"
git clone -q --no-checkout "$2" "$work/sdk"
git -C "$work/samples" checkout -q HEAD -- torch-neuronx/inference/customop_mlp torch-neuronx/training/customop_mlp
git -C "$work/sdk" checkout -q HEAD -- neuron-customops
echo "samples $(git -C "$work/samples" rev-parse HEAD), sdk $(git -C "$work/sdk" rev-parse HEAD)"
python3 -B "$root/tests/vendor/blocks.py" "$work/sdk/neuron-customops" "$work/documents"

mlp=$work/samples/torch-neuronx
{
  printf 'cmake_minimum_required(VERSION 3.22)\nproject(vendor CXX)\ninclude("%s/cmake/soma-custom-operators.cmake")\n' "$root"
  add() { printf 'soma_add_custom_operators(%s NAME %s %s)\n' "$1" "$1" "$2"; }
  both() { add "$1" "COMPUTE \"$2/relu.cpp\" SHAPE \"$2/shape.cpp\" ${3:-}"; }
  both elements "$mlp/inference/customop_mlp/neuron"
  both tcm "$mlp/inference/customop_mlp/neuron-tcm"
  both multicore "$mlp/inference/customop_mlp/neuron-multicore" MULTICORE
  both training "$mlp/training/customop_mlp/neuron"
  add framework "COMPUTE \"$mlp/training/customop_mlp/pytorch/relu.cpp\""
  for folder in "$work/documents"/*/; do
    name=$(basename "$folder")
    add "$name" "COMPUTE \"${folder}kernel.cpp\" SHAPE \"${folder}shape.cpp\""
  done
} >"$work/CMakeLists.txt"
cmake -S "$work" -B "$work/libraries" >"$work/configure.log"
cmake --build "$work/libraries" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
cmake --build "$build" --target vendor_operators >"$work/runner.log" 2>&1 || { cat "$work/runner.log"; exit 1; }
"$build/bin/vendor_operators" "$work/libraries"
