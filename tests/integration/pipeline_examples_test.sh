#!/usr/bin/env bash
# usage: pipeline_examples_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, builds the examples of pipelines and of experts against it,
# and trains: losses must fall, and ways to cut a model must agree.
set -euo pipefail
# shellcheck source=installed.sh
. "$(dirname "$0")/installed.sh" "$1" "$2"
cp -r "$source/examples/02_gpt" "$work/02_gpt"
cp -r "$source/examples/05_hybrid" "$work/05_hybrid"
build_example 06_pipeline
build_example 07_moe
export OMP_NUM_THREADS=1
run() {
  timeout 100 "$work/prefix/bin/argosy" run "$@"
}

# learnt FILE STEP LEAST MOST
learnt() {
  awk -v file="$1" -v least="$3" -v most="$4" "/^step $2:/ { loss = \$4 } END {
    if (!(loss > least && loss < most)) {
      print file \": loss \" loss \", expected \" least \" to \" most
      exit 1
    }
  }" "$1"
}

run -n 2 06_pipeline/built/pipeline --steps 50 \
  --strategy 06_pipeline/strategy.json | tee listed
grep -q "^2 stages, schedule zbh1, 4 microbatches" listed
learnt listed 50 4 6.2
run -n 2 06_pipeline/built/pipeline --steps 50 --unchanged \
  --strategy 06_pipeline/strategy.json | tee unchanged
test "$(awk '/^step 50/ { printf "%.3f", $4 }' listed)" = \
  "$(awk '/^step 50/ { printf "%.3f", $4 }' unchanged)"

run -n 2 07_moe/built/moe --steps 100 --strategy 07_moe/strategy.json | tee moe
grep -q "^8 experts, 4 on each of 2 ranks" moe
learnt moe 100 3 5.2
