#!/usr/bin/env bash
# usage: hybrid_examples_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, builds the examples of ZeRO and of hybrid parallelism against
# it, and trains: losses must fall, and ways to divide the work must agree.
set -euo pipefail
# shellcheck source=installed.sh
. "$(dirname "$0")/installed.sh" "$1" "$2"
cp -r "$source/examples/02_gpt" "$work/02_gpt"
build_example 04_zero
build_example 05_hybrid
export OMP_NUM_THREADS=1
run() {
  timeout 100 "$work/prefix/bin/argosy" run "$@"
}

# within NAME LEAST MOST VALUE
within() {
  awk -v name="$1" -v least="$2" -v most="$3" -v value="$4" 'BEGIN {
    if (!(value > least && value < most)) {
      print name " is " value ", expected " least " to " most
      exit 1
    }
  }' >&2
}

for stage in 3 1; do
  options=()
  if [ $stage = 1 ]; then options=(--strategy 04_zero/strategy.json); fi
  run -n 2 04_zero/built/zero "${options[@]}" | tee "zero.$stage"
  within "loss of stage $stage" 0.2 0.9 \
    "$(awk '/^step 200/ { print $4 }' "zero.$stage")"
done
grep -q "^7 units" zero.3
grep -q "^3 units" zero.1
test "$(grep ^step zero.3)" = "$(grep ^step zero.1)"

run -n 4 05_hybrid/built/hybrid --steps 50 \
  --strategy 05_hybrid/strategy.json | tee hybrid.4
grep -q "^data 1 x sharding 2 x sep 1 x model 2" hybrid.4
echo '{"grad_clip": true}' >data_parallel.json
run -n 2 05_hybrid/built/hybrid --steps 50 \
  --strategy data_parallel.json | tee hybrid.2
within "loss" 4 6.2 "$(awk '/^step 50/ { print $4 }' hybrid.2)"
within "difference of losses" -0.01 0.01 "$(paste \
  <(awk '/^step 50/ { print $4 }' hybrid.4) \
  <(awk '/^step 50/ { print $4 }' hybrid.2) | awk '{ print $1 - $2 }')"
