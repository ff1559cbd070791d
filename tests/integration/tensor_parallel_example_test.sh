#!/usr/bin/env bash
# usage: tensor_parallel_example_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, builds the tensor-parallel example against it, and trains on
# two and on four ranks: the loss must have fallen, to the same value.
set -euo pipefail
# shellcheck source=installed.sh
. "$(dirname "$0")/installed.sh" "$1" "$2"
build_example 03_tensor_parallel
export OMP_NUM_THREADS=1
for ranks in 2 4; do
  timeout 100 "$work/prefix/bin/argosy" run -n $ranks \
    "$work/03_tensor_parallel/built/tensor_parallel" | tee "printed.$ranks"
  grep -q "all_reduce" "printed.$ranks"
  if ! awk 'END { exit !($2 == "300:" && $4 > 0.1 && $4 < 0.7) }' \
    "printed.$ranks"; then
    echo "unexpected output" >&2
    exit 1
  fi
done
# The same model and batches, but for the rounding of sums.
paste <(tail -1 printed.2) <(tail -1 printed.4) |
  awk '{ d = $4 - $8; exit !(d < 0.02 && d > -0.02) }'
