#!/usr/bin/env bash
# usage: recommender_daily_test.sh SOURCE_DIR BUILD_DIR
# Trains the recommender by days and passes, on 2 servers and 2 workers. A job
# whose worker is killed at a checkpoint, and then a server at any moment, must
# end with the AUC of each pass and the exports of one that was left alone.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"
program=$built/14_recommender/recommender_daily

job() {
  timeout 120 "$argosy" run --server-num 2 --trainer-num 2 --max-restarts 3 \
    "$program" --log log --output "$1"
}

"$program" --write log --samples 1600
job whole >whole.txt 2>whole.err || { cat whole.err >&2; exit 1; }
cat whole.txt

ARGOSY_FAULT=online.saved:kill:2 ARGOSY_FAULT_RANK=0 ARGOSY_FAULT_ONCE=happened \
  job killed >killed.txt 2>killed.err &
launcher=$!
# Half way, a server: its environment says what it is.
until [ "$(wc -l 2>/dev/null <killed/donefile || echo 0)" -ge 5 ]; do
  kill -0 "$launcher" || { cat killed.err >&2; exit 1; }
  sleep 0.05
done
victim=
for process in /proc/[0-9]*; do
  if tr '\0' '\n' 2>/dev/null <"$process/environ" |
    grep -qx "PWD=$work" && [ "$(readlink "$process/exe")" = "$program" ] &&
    tr '\0' '\n' <"$process/environ" | grep -qx 'TRAINING_ROLE=PSERVER'; then
    victim=${process#/proc/}
  fi
done
kill -9 "$victim"
wait "$launcher" || { cat killed.err >&2; exit 1; }
[ -e happened ] || { echo "no worker was killed" >&2; exit 1; }
grep -q 'restart 2 of 3' killed.err || {
  cat killed.err >&2
  echo "the job was not killed twice" >&2
  exit 1
}
cmp whole.txt killed.txt
cmp whole/donefile killed/donefile
cmp whole/auc.svg killed/auc.svg
diff -r whole/exports killed/exports

# It learns, in spite of items that nobody knows yet.
expect_within "the last pass" 0.55 0.8 "$(awk 'END { print $3 }' whole.txt | tr -d ,)"
"$program" --log log --serve whole | tee served.txt
expect_within "served" 0.6 0.95 "$(awk '{ print $7 }' served.txt)"
