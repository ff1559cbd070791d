#!/usr/bin/env bash
# usage: checkpoint_example_test.sh SOURCE_DIR BUILD_DIR
# A rank of the example is killed; started again on another number of ranks, the
# run goes on at its newest checkpoint, and learns.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"
program=$built/12_checkpoint/checkpoint

if run 2 "$program" --folder saved --die-at 50 >first 2>errors; then
  echo "the run was not killed" >&2
  exit 1
fi
printed=$(run 3 "$program" --folder saved)
if ! grep -q "^resumed at step 40$" <<<"$printed" ||
  ! awk '/^step 100: loss/ { found = $4 < 0.5 } END { exit !found }' <<<"$printed"; then
  echo "unexpected output: $printed" >&2
  exit 1
fi
# The policy keeps two, and what was killed has left nothing.
[ "$(ls saved)" = "latest
step-00000080
step-00000100" ] || { ls -la saved >&2; exit 1; }
echo "$printed"
