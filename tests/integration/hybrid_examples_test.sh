#!/usr/bin/env bash
# usage: hybrid_examples_test.sh SOURCE_DIR BUILD_DIR
# Trains the examples of ZeRO and of hybrid parallelism: losses must fall, and
# ways to divide the work must agree.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"

for stage in 3 1; do
  options=()
  if [ $stage = 1 ]; then options=(--strategy "$examples/04_zero/strategy.json"); fi
  run 2 "$built/04_zero/zero" "${options[@]}" | tee "zero.$stage"
  expect_within "loss of stage $stage" 0.2 0.9 "$(loss_of 200 "zero.$stage")"
done
grep -q "^7 units" zero.3
grep -q "^3 units" zero.1
test "$(grep ^step zero.3)" = "$(grep ^step zero.1)"

run 4 "$built/05_hybrid/hybrid" --steps 50 \
  --strategy "$examples/05_hybrid/strategy.json" | tee hybrid.4
grep -q "^data 1 x sharding 2 x sep 1 x model 2" hybrid.4
echo '{"grad_clip": true}' >data_parallel.json
run 2 "$built/05_hybrid/hybrid" --steps 50 \
  --strategy data_parallel.json | tee hybrid.2
expect_within "loss" 4 6.2 "$(loss_of 50 hybrid.2)"
expect_within "difference of losses" -0.01 0.01 \
  "$(echo "$(loss_of 50 hybrid.4) $(loss_of 50 hybrid.2)" | awk '{ print $1 - $2 }')"
