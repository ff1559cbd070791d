#!/usr/bin/env bash
# usage: run_program.sh ARGOSY RANKS PROGRAM EXPECTED
# Runs a program of a page on so many ranks. It must print what the page shows,
# which is in the file EXPECTED if the page shows anything.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
timeout 50 "$1" run -n "$2" "$3" >printed
if [ -e "$4" ]; then
  diff "$4" printed || {
    echo "the page shows what is marked <, the program printed what is marked >" >&2
    exit 1
  }
fi
