#!/bin/sh
# usage: mpi_hosts.sh PROGRAM MPIRUN [ARGUMENT...]
# Runs four MPI ranks of PROGRAM on what are two hosts as far as memory goes:
# PID namespaces, of which each rank enters one. Root's.
program=$1
shift

# Sets `host` to the first process of a new namespace.
begin_host() {
  unshare --pid --fork --kill-child --mount-proc sleep 50 > /dev/null 2>&1 &
  while ! grep -q . "/proc/$!/task/$!/children"; do :; done
  host=$(tr -d ' ' < "/proc/$!/task/$!/children")
}

begin_host
first=$! HOST0=$host
begin_host
second=$! HOST1=$host
trap 'kill $first $second' EXIT
export HOST0 HOST1 PROGRAM="$program"
export OMPI_MCA_btl=self,tcp # its shared memory asks for one PID namespace
# MPICH's MPI_Finalize waits for acknowledgements of UCX's TCP puts, which a
# rank that already waits in the last barrier no longer gives.
export UCX_TCP_PUT_ENABLE=n
"$@" 4 sh -c '
  rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
  host=$HOST0
  [ "$rank" -lt 2 ] || host=$HOST1
  exec nsenter --target "$host" --pid --mount "$PROGRAM" hosts multiple'
