#!/usr/bin/env bash
# usage: hello_examples_test.sh SOURCE_DIR BUILD_DIR
# The examples of first steps, of collectives and of MPI print what they say.
set -euo pipefail
# shellcheck source=examples.sh
. "$(dirname "$0")/examples.sh" "$1" "$2"

expect_output "hello" "$(run 2 "$built/00_hello/hello" | sort)" \
  "$(printf 'rank %s of 2: heard 42 from rank 0; 1 + ... + 2 = 3\n' 0 1)"

main=$examples/09_collectives/main.cpp
expect_output "collectives" \
  "$(run 3 "$built/09_collectives/collectives" 2>/dev/null)" \
  "$(sed -n '/^\/\/ prints from rank 0/,/^$/p' "$main" | grep '^//   ' | cut -c6-)"

main=$examples/08_mpi/main.cpp
expect_output "an MPI program" \
  "$(timeout 60 mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 \
    "$built/08_mpi/solver" | sort)" \
  "$(grep -E '^//   (solver|writer)' "$main" | cut -c6- | sort)"
