#!/usr/bin/env bash
# Makes digits.html: one file with the library as WebAssembly in it, which opens from the disk.
# Usage: bash examples/browser/build.sh OUTPUT_FOLDER
# Needs PyPI's package ziglang (ZIG="python3 -m ziglang" of an environment that has it), Python, and Highway's and GSL's headers.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
output=${1:?usage: build.sh OUTPUT_FOLDER}
zig=${ZIG:-python3 -m ziglang}
mkdir -p "$output/foreign"
for header in hwy gsl; do ln -sfn "/usr/include/$header" "$output/foreign/$header"; done
$zig c++ -target wasm32-wasi -mcpu=generic+simd128 -mexec-model=reactor -std=c++20 -O2 -fno-exceptions -fno-rtti -DSOMA_QUIET \
  -I "$here/../../include" -I "$here/.." -isystem "$output/foreign" "$here/learner.cpp" -o "$output/learner.wasm" -s
python3 - "$here" "$output" <<'PYTHON'
import base64, json, pathlib, sys
here, output = map(pathlib.Path, sys.argv[1:])
page = (here / "page.html").read_text(encoding="utf-8")
module = base64.b64encode((output / "learner.wasm").read_bytes()).decode()
worker = json.dumps((here / "worker.js").read_text(encoding="utf-8")).replace("</", "<\\/")
page = page.replace("[WORKER]", f"[{worker}]").replace("atob(MODULE)", f'atob("{module}")')
(output / "digits.html").write_text(page, encoding="utf-8")
print(f"{output}/digits.html: {len(page) / 1e6:.2f} MB")
PYTHON
