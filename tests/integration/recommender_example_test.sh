#!/usr/bin/env bash
# usage: recommender_example_test.sh SOURCE_DIR BUILD_DIR
# Trains the recommender on 2 servers and 2 workers: in each mode it must come
# within 0.005 of the best possible AUC, and a plain program must run what was
# saved. On MovieLens it must be better than means of users and films.
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

dslabs=$1/tests/peers/packages/r-cran-dslabs/usr/lib/R/site-library/dslabs/data
[ -d "$dslabs" ] || {
  echo "$dslabs is not there: tools/setup tests unpacks it" >&2
  exit 1
}
line=$("$argosy" run --server-num 2 --trainer-num 2 \
  "$program" --movielens "$dslabs" --epochs 2 --batch 128 --rate 0.01)
echo "$line"
awk '{ exit !($2 == "AUC" && $3 > $NF + 0.005 && $NF > 0.7) }' <<<"$line" || {
  echo "not better than means" >&2
  exit 1
}
