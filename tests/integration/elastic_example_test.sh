#!/usr/bin/env bash
# usage: elastic_example_test.sh SOURCE_DIR BUILD_DIR
# Ranks of the example are killed at random, and the parameters at the end are
# those of a run in which nobody is.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"
# A name that no other program has: what runs under it is killed.
program=$work/elastic
ln -s "$built/13_elastic/elastic" "$program"
flags=(2 --restart-policy worker --max-restarts 20)

run "${flags[@]}" "$program" 3000 >undisturbed
"$examples/13_elastic/kill_ranks.sh" "$program" 2 2>killer &
killer=$!
run "${flags[@]}" "$program" 3000 >disturbed 2>errors || {
  cat errors >&2
  exit 1
}
wait "$killer"
if ! grep -q "starting it again" errors; then
  echo "nobody was killed" >&2
  exit 1
fi
expect_output "the disturbed run" "$(tail -n 1 disturbed)" "$(tail -n 1 undisturbed)"
