#!/usr/bin/env bash
# usage: moe_example_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, builds the example with experts against it, and trains: the
# loss must fall.
set -euo pipefail
# shellcheck source=installed.sh
. "$(dirname "$0")/installed.sh" "$1" "$2"
cp -r "$source/examples/02_gpt" "$work/02_gpt"
cp -r "$source/examples/05_hybrid" "$work/05_hybrid"
build_example 07_moe
export OMP_NUM_THREADS=1
timeout 100 "$work/prefix/bin/argosy" run -n 2 07_moe/built/moe --steps 100 |
  tee moe.2
grep -q "^8 experts, 4 on each of 2 ranks" moe.2
awk '/^step 100/ { loss = $4 } END {
  if (!(loss > 3 && loss < 5.2)) {
    print "loss is " loss ", expected 3 to 5.2"
    exit 1
  }
}' moe.2
