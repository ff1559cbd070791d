#!/usr/bin/env bash
# usage: install_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, then from another folder builds and runs an example with
# find_package and with pkg-config. The source tree must not be needed.
set -euo pipefail
# shellcheck source=installed.sh
. "$(dirname "$0")/installed.sh" "$1" "$2"
if grep -rlF "$source" "$work/prefix/lib/cmake" "$work/prefix/lib/pkgconfig"; then
  echo "the package mentions the source tree" >&2
  exit 1
fi

build_example 00_hello
export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
# shellcheck disable=SC2046
g++ 00_hello/main.cpp -o hello-pc $(pkg-config --cflags --libs argosy)

expect() {
  local lines
  lines=$("$@" | sort)
  [ "$lines" = "$(printf '%s\n' \
    'rank 0 of 2: heard 42 from rank 0; 1 + ... + 2 = 3' \
    'rank 1 of 2: heard 42 from rank 0; 1 + ... + 2 = 3')" ] || {
    echo "unexpected output of $*: $lines" >&2
    exit 1
  }
}
expect "$work/prefix/bin/argosy" run -n 2 00_hello/built/hello
expect "$work/prefix/bin/argosy" run -n 2 ./hello-pc
echo "installed package works"

if [ -d "$work/prefix/lib/python3" ]; then
  packages=$work/prefix/lib/python3/dist-packages
  ldd "$packages/argosy_torch/_C.so" | grep "=> $work/prefix/lib/.*libargosy.so"
  PYTHONPATH=$packages "$work/prefix/bin/argosy" run -n 2 \
    /usr/bin/python3 "$source/examples/10_python_ddp/train.py" | grep '^2 ranks'
  echo "installed Python module works"
fi

# What the example of collectives says it prints.
build_example 09_collectives
printed=$("$work/prefix/bin/argosy" run -n 3 09_collectives/built/collectives 2>/dev/null)
expected=$(sed -n '/^\/\/ prints from rank 0/,/^$/p' 09_collectives/main.cpp | grep '^//   ' | cut -c6-)
[ "$printed" = "$expected" ] || {
  echo "unexpected output of the collectives: $printed" >&2
  exit 1
}
echo "the collectives work"

# A program with MPI, of headers that only it compiles.
build_example 08_mpi
printed=$(timeout 60 mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 08_mpi/built/solver | sort)
expected=$(grep -E '^//   (solver|writer)' 08_mpi/main.cpp | cut -c6- | sort)
[ "$printed" = "$expected" ] || {
  echo "unexpected output of the solver: $printed" >&2
  exit 1
}
echo "an MPI program works"

# The programs of `argosy bench` came along, and find each other.
"$work/prefix/bin/argosy" bench comm --quick --json \
  --ranks 2 --ops all_reduce --sizes 64K >bench.json
python3 - bench.json <<'EOF'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert rows and {(r["op"], r["ranks"], r["bytes"]) for r in rows} == {("all_reduce", 2, 65536)}, rows
assert all(r[key] > 0 for r in rows for key in ("ours", "gloo", "openmpi", "roofline_share")), rows
EOF
echo "argosy bench works"
