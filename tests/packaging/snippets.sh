# shellcheck shell=bash
# Sourced after common.sh by the tests of docs/packages.md.

# snippet <heading> <n>: the n-th bash block below that heading, so that what the page says is what is run.
snippet() {
  local text
  text=$(awk -v heading="## $1" -v wanted="$2" '
    /^## / { inside = $0 == heading }
    inside && /^```bash$/ { block++; copy = block == wanted; next }
    /^```$/ { copy = 0 }
    copy' "$SOMA_SOURCE/docs/packages.md")
  [ -n "$text" ] || fail "docs/packages.md has no block $2 below '## $1'"
  printf '%s\n' "$text"
}
