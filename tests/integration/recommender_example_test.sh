#!/usr/bin/env bash
# usage: recommender_example_test.sh SOURCE_DIR BUILD_DIR
# Trains the recommender on 2 servers and 2 workers: in each mode it must come
# within 0.005 of the best possible AUC, and a plain program must run what was
# saved.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"
program=$built/14_recommender/recommender

# "sync: AUC 0.9, best possible 0.9" and at most 0.005 between them.
expect_learnt() {
  echo "$1"
  if [ "$(wc -l <<<"$1")" != 1 ] ||
    ! awk '{ exit !($2 == "AUC" && $3 > 0.6 && $6 - $3 < 0.005) }' <<<"$1"; then
    echo "not within 0.005 of the best" >&2
    exit 1
  fi
}
expect_learnt "$("$argosy" run --server-num 2 --trainer-num 2 \
  "$program" --mode sync --save model)"
expect_learnt "$("$program" --predict model)"
for mode in async geo; do
  expect_learnt "$("$argosy" run --server-num 2 --trainer-num 2 \
    "$program" --mode "$mode")"
done
