#!/usr/bin/env bash
# CPU time a request of bert_classifier serve, with 1, 8 and 32 connections of one sentence a request.
# Usage: bash bench/serve.sh --model FOLDER [--program PROGRAM]... [--connections 1,8,32] [--requests N] [--rounds N]
# PROGRAM (default build/release/bin/bert_classifier) may be given several times: builds are asked in turn, and each has its ratio beside
# the first. Only the server's own time counts, by the kernel's clock of its process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set /s/^# //p' bench/serve.sh && exit 0 ;; esac
exec python3 -B bench/yardstick/serve.py "$@"
