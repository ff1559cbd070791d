# Sourced with SOURCE_DIR BUILD_DIR EXAMPLE: goes to a new folder $work, which
# is removed at the end, installs Argosy to $work/prefix, and builds the example
# against it in $work/built.
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/examples/$3" "$work/example"
cd "$work"

cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S example -B built -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build built
