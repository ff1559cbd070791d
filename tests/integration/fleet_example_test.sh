#!/usr/bin/env bash
# usage: fleet_example_test.sh SOURCE_DIR BUILD_DIR
# Trains the fleet example on two ranks with and without its strategy: the loss
# must have fallen. A strategy with a wrong name must be refused.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"
program=$built/11_fleet/fleet
strategy=$examples/11_fleet/strategy.json

# Four lines, from one rank, and a loss that ends below 0.6 from 2.3.
expect_learnt() {
  local printed
  printed=$(run 2 "$program" "$@")
  if [ "$(wc -l <<<"$printed")" != 4 ] ||
    ! awk 'END { exit !($2 == "400:" && $4 > 0.1 && $4 < 0.6) }' <<<"$printed"; then
    echo "unexpected output with \"$*\": $printed" >&2
    exit 1
  fi
  echo "${*:-no strategy}: $(tail -1 <<<"$printed")"
}
expect_learnt
expect_learnt "$strategy"

sed 's/"lamb"/"lam"/' "$strategy" >wrong.json
if run 2 "$program" wrong.json 2>errors; then
  echo "a wrong strategy was not refused" >&2
  exit 1
fi
grep -q "there is no lam: did you mean lamb?" errors
