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
# Two modules: one with fused multiply-adds, and one for browsers and machines without them.
for module in learner:simd128 relaxed:simd128+relaxed_simd; do
  $zig c++ -target wasm32-wasi "-mcpu=generic+${module#*:}" -mexec-model=reactor -std=c++20 -O2 -fno-exceptions -fno-rtti -DSOMA_QUIET \
    -I "$here/../../include" -I "$here/.." -isystem "$output/foreign" "$here/learner.cpp" -o "$output/${module%:*}.wasm" -s
done
python3 - "$here" "$output" <<'PYTHON'
import base64, gzip, json, pathlib, sys
here, output = map(pathlib.Path, sys.argv[1:])
page = (here / "page.html").read_text(encoding="utf-8")
modules = [base64.b64encode(gzip.compress((output / f"{name}.wasm").read_bytes(), 9, mtime=0)).decode()
           for name in ("relaxed", "learner")]
worker = json.dumps((here / "worker.js").read_text(encoding="utf-8")).replace("</", "<\\/")
page = page.replace("[WORKER]", f"[{worker}]").replace("MODULES", json.dumps(modules))
(output / "digits.html").write_text(page, encoding="utf-8")
print(f"{output}/digits.html: {len(page) / 1e6:.2f} MB")
PYTHON
