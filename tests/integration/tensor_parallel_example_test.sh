#!/usr/bin/env bash
# usage: tensor_parallel_example_test.sh SOURCE_DIR BUILD_DIR
# Trains the tensor-parallel example on two and on four ranks: the loss must
# have fallen, to the same value.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"
for ranks in 2 4; do
  run $ranks "$built/03_tensor_parallel/tensor_parallel" | tee "printed.$ranks"
  grep -q "all_reduce" "printed.$ranks"
  expect_within "loss of $ranks ranks" 0.1 0.7 "$(loss_of 300 "printed.$ranks")"
done
# The same model and batches, but for the rounding of sums.
expect_within "difference of losses" -0.02 0.02 \
  "$(echo "$(loss_of 300 printed.2) $(loss_of 300 printed.4)" | awk '{ print $1 - $2 }')"
