#!/usr/bin/env bash
# Runs every suite that the project has, one after the other, and writes what came of each into docs/lab/everything.md.
# Usage: bash tests/everything.sh [--hours N] [--only PATTERN] [--again] [--list]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 -B tests/everything.py "$@"
