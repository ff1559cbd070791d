#!/usr/bin/env bash
# usage: kill_ranks.sh PROGRAM TIMES
# Kills a process of PROGRAM, drawn at random, every half second.
set -euo pipefail
for ((i = 0; i < $2; ++i)); do
  sleep 0.5
  mapfile -t ranks < <(pgrep -f "^$1")
  if ((${#ranks[@]} > 0)); then
    kill -KILL "${ranks[RANDOM % ${#ranks[@]}]}" 2>/dev/null || true
  fi
done
