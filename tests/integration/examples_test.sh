#!/usr/bin/env bash
# usage: examples_test.sh SOURCE_DIR BUILD_DIR EXAMPLE
# Trains for a moment with each way to start ranks: the model must have learnt
# something.
set -euo pipefail
example=$3
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"
program=$built/$example/${example#*_}

# learnt(): whether what was printed says that the model beats a guess.
case $example in
01_fashion_mnist)
  flags="--epochs 1 --steps 80"
  # Several lines mean that the ranks did not meet.
  learnt() {
    [ "$(wc -l <<<"$1")" = 1 ] && awk '{ exit !($5 > 60 && $5 < 100) }' <<<"$1"
  }
  ;;
02_gpt)
  flags="--steps 40 --layers 1 --width 32 --context 32 --vocab 260 --lr 0.01"
  # All tokens alike would be 5.56. A text follows.
  learnt() {
    [ "$(grep -c "validation loss" <<<"$1")" = 1 ] &&
      awk '/validation loss/ { exit !($3 > 1 && $3 < 4) }' <<<"$1" &&
      [ "$(grep -c "And the LORD said" <<<"$1")" = 1 ]
  }
  ;;
esac

expect_learnt() {
  local printed
  # shellcheck disable=SC2086
  printed=$(timeout 60 "$@" $flags | sed 's/^\[[^]]*\]: *//') # torchrun's label
  learnt "$printed" || {
    echo "unexpected output of $*: $printed" >&2
    exit 1
  }
  echo "$1 ${2:-}: $(head -1 <<<"$printed")"
}
expect_learnt "$argosy" run -n 2 "$program"
expect_learnt mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 "$program"
# Debian's torchrun fails without -r and -t.
expect_learnt torchrun -r 1 -t 1 --no_python --nproc_per_node 2 "$program"
expect_learnt "$program" --threads 2
expect_learnt "$program"
