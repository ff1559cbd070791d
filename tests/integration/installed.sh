# Sourced with SOURCE_DIR BUILD_DIR: goes to a new folder $work, which is
# removed at the end, and installs Argosy to $work/prefix.
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null

# build_example EXAMPLE: copies it to $work/EXAMPLE, and builds it there against
# what was installed, in the folder `built`.
build_example() {
  cp -r "$source/examples/$1" "$work/$1"
  cmake -S "$1" -B "$1/built" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
  cmake --build "$1/built"
}
