#!/usr/bin/env bash
# usage: examples_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, builds the Fashion-MNIST example against it, and trains for a
# moment with each way to start ranks: the net must have learnt something.
set -euo pipefail
# shellcheck source=build_example.sh
. "$(dirname "$0")/build_example.sh" "$1" "$2" 01_fashion_mnist
program=$work/built/fashion_mnist
short="--epochs 1 --steps 80"

# Several lines mean that the ranks did not meet.
expect_learnt() {
  local printed
  # shellcheck disable=SC2086
  printed=$(timeout 60 "$@" $short | sed 's/^\[[^]]*\]: *//') # torchrun's label
  if [ "$(wc -l <<<"$printed")" != 1 ] ||
    ! awk '{ exit !($5 > 60 && $5 < 100) }' <<<"$printed"; then
    echo "unexpected output of $*: $printed" >&2
    exit 1
  fi
  echo "$1 ${2:-}: $printed"
}
export OMP_NUM_THREADS=1
expect_learnt "$work/prefix/bin/argosy" run -n 2 "$program"
expect_learnt mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "$program"
# Debian's torchrun fails without -r and -t.
expect_learnt torchrun -r 1 -t 1 --no_python --nproc_per_node 2 "$program"
expect_learnt "$program" --threads 2
expect_learnt "$program"
