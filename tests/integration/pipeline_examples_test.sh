#!/usr/bin/env bash
# usage: pipeline_examples_test.sh SOURCE_DIR BUILD_DIR
# Trains the examples of pipelines and of experts: losses must fall, and ways to
# cut a model must agree.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"

pipeline() {
  run 2 "$built/06_pipeline/pipeline" --steps 50 \
    --strategy "$examples/06_pipeline/strategy.json" "$@"
}
pipeline | tee listed
grep -q "^2 stages, schedule zbh1, 4 microbatches" listed
expect_within "loss" 4 6.2 "$(loss_of 50 listed)"
pipeline --unchanged | tee unchanged
test "$(loss_of 50 listed | xargs printf %.3f)" = \
  "$(loss_of 50 unchanged | xargs printf %.3f)"

run 2 "$built/07_moe/moe" --steps 100 \
  --strategy "$examples/07_moe/strategy.json" | tee moe
grep -q "^8 experts, 4 on each of 2 ranks" moe
expect_within "loss of experts" 3 5.2 "$(loss_of 100 moe)"
