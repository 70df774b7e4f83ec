#!/usr/bin/env bash
# serve under load: 64 connections for a minute, one text a request, with batches of one and then of the default size.
# Usage: bash tests/examples/serve/load.sh PROGRAM WORK_FOLDER [SECONDS]
# Needs wrk (Debian: apt-get install wrk). Exit code: 0 no request failed, 1 one did, 77 no wrk.
set -euo pipefail
program=${1:?usage: load.sh PROGRAM WORK_FOLDER [SECONDS]}
work=${2:?usage: load.sh PROGRAM WORK_FOLDER [SECONDS]}
seconds=${3:-60}
command -v wrk >/dev/null || {
  echo "SKIPPED: needs wrk"
  exit 77
}
rm -rf "$work"
mkdir -p "$work"
"$program" train --reviews 2000 --quiet --output "$work/model" >/dev/null

cat >"$work/ask.lua" <<'LUA'
-- Texts of 8 to 48 words; counts the answers that are no prediction.
local words = { "the", "lamp", "is", "not", "really", "awful", "and", "handle" }
local number = 0
function request()
  number = number + 1
  local text = {}
  for i = 1, 8 + number % 41 do text[i] = words[1 + (number + i * i) % #words] end
  return wrk.format("POST", "/invocations", { ["Content-Type"] = "text/plain" }, table.concat(text, " "))
end
wrong = 0
function response(status, headers, body)
  if status ~= 200 or not body:match("^[a-z]+\t[01]%.%d+\n$") then wrong = wrong + 1 end
end
local threads = {}
function setup(thread) threads[#threads + 1] = thread end
function done(summary, latency)
  local bad = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout +
    summary.errors.status
  for _, thread in ipairs(threads) do bad = bad + thread:get("wrong") end
  print(string.format("%d requests, %.0f a second, p50 %.1f ms, p99 %.1f ms, %d failed", summary.requests,
    summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, bad))
  print("failed " .. bad)
end
LUA

result=0
for batch in 1 32; do
  "$program" serve --model "$work/model" --port 0 --batch-size "$batch" >"$work/serve.log" 2>&1 &
  server=$!
  trap 'kill "$server" 2>/dev/null || true' EXIT
  url=
  for _ in $(seq 100); do
    url=$(sed -n 's/^listening on //p' "$work/serve.log")
    if [ -n "$url" ] && python3 -c "import sys, urllib.request as u; u.urlopen(sys.argv[1])" "$url/ping" 2>/dev/null; then break; fi
    sleep 0.1
  done
  wrk -c 64 -t 2 -d "$seconds" --timeout 10s --latency -s "$work/ask.lua" "$url" >"$work/wrk_$batch.log"
  kill -TERM "$server"
  code=0
  wait "$server" || code=$?
  trap - EXIT
  echo "batches of at most $batch: $(grep ' requests, ' "$work/wrk_$batch.log")"
  grep -E '^(mean batch|latency|failures)' "$work/serve.log"
  if [ "$code" != 0 ] || ! grep -qx 'failed 0' "$work/wrk_$batch.log"; then result=1; fi
done
exit "$result"
