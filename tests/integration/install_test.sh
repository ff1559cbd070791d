#!/usr/bin/env bash
# usage: install_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, then from another folder builds and runs programs with
# find_package and with pkg-config. The source tree must not be needed.
set -euo pipefail
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
prefix=$work/prefix
argosy=$prefix/bin/argosy
cmake --install "$build" --prefix "$prefix" >/dev/null
if grep -rlF "$source" "$prefix/lib/cmake" "$prefix/lib/pkgconfig"; then
  echo "the package mentions the source tree" >&2
  exit 1
fi

# Whatever an installed header or an example includes is installed.
grep -rhoE '#include ["<]argosy/[^">]+' "$prefix/include" "$source/examples" |
  sed 's/.*["<]//' | sort -u >included
(cd "$prefix/include" && find argosy -name '*.h' | sort) >installed
if comm -23 included installed | grep .; then
  echo "these are included, but not installed" >&2
  exit 1
fi
echo "headers include what is installed"

# The program of the README with the CMake file of the README, an example with
# pkg-config: two compilers at once.
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# shellcheck disable=SC2046
g++ "$source/examples/00_hello/main.cpp" -o hello-pc \
  $(pkg-config --cflags --libs argosy) &
compiler=$!
python3 "$source/tools/doc_snippets.py" project readme "$source/README.md"
cmake -S readme -B readme/built -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build readme/built
wait $compiler

# expect PRINTED EXPECTED WHAT
expect() {
  [ "$1" = "$2" ] || {
    printf '%s printed:\n%s\nexpected:\n%s\n' "$3" "$1" "$2" >&2
    exit 1
  }
  echo "$3 works"
}
expect "$("$argosy" run -n 2 ./hello-pc | sort)" \
  "$(printf 'rank %s of 2: heard 42 from rank 0; 1 + ... + 2 = 3\n' 0 1)" \
  "an example with pkg-config"
expect "$("$argosy" run -n 4 readme/built/hello 2>/dev/null)" \
  "$(cat readme/printed.txt)" "the project of the README with find_package"

if [ -d "$prefix/lib/python3" ]; then
  packages=$prefix/lib/python3/dist-packages
  ldd "$packages/argosy_torch/_C.so" | grep "=> $prefix/lib/.*libargosy.so"
  PYTHONPATH=$packages "$argosy" run -n 2 \
    /usr/bin/python3 "$source/examples/10_python_ddp/train.py" | grep '^2 ranks'
  echo "installed Python module works"
fi

# The programs of `argosy bench` came along, and find each other.
if ! grep -q "ARGOSY_BUILD_BENCH:BOOL=ON" "$build/CMakeCache.txt"; then
  echo "no \`argosy bench\`: ARGOSY_BUILD_BENCH is off"
  exit
fi
"$argosy" bench comm --quick --json \
  --ranks 2 --ops all_reduce --sizes 64K >bench.json
python3 - bench.json <<'P'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert rows and {(r["op"], r["ranks"], r["bytes"]) for r in rows} == {("all_reduce", 2, 65536)}, rows
assert all(r[key] > 0 for r in rows for key in ("ours", "gloo", "openmpi", "roofline_share")), rows
P
echo "argosy bench works"
