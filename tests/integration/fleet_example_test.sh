#!/usr/bin/env bash
# usage: fleet_example_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, builds the fleet example against it, and trains on two ranks
# with and without its strategy: the loss must have fallen. A strategy with a
# wrong name must be refused.
set -euo pipefail
# shellcheck source=installed.sh
. "$(dirname "$0")/installed.sh" "$1" "$2"
build_example 11_fleet
export OMP_NUM_THREADS=1
run=("$work/prefix/bin/argosy" run -n 2 "$work/11_fleet/built/fleet")

# Four lines, from one rank, and a loss that ends below 0.6 from 2.3.
expect_learnt() {
  local printed
  printed=$(timeout 100 "${run[@]}" "$@")
  if [ "$(wc -l <<<"$printed")" != 4 ] ||
    ! awk 'END { exit !($2 == "400:" && $4 > 0.1 && $4 < 0.6) }' <<<"$printed"; then
    echo "unexpected output with \"$*\": $printed" >&2
    exit 1
  fi
  echo "${*:-no strategy}: $(tail -1 <<<"$printed")"
}
expect_learnt
expect_learnt 11_fleet/strategy.json

sed 's/"lamb"/"lam"/' 11_fleet/strategy.json >wrong.json
if timeout 60 "${run[@]}" wrong.json 2>errors; then
  echo "a wrong strategy was not refused" >&2
  exit 1
fi
grep -q "there is no lam: did you mean lamb?" errors
