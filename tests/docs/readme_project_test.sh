#!/usr/bin/env bash
# usage: readme_project_test.sh SOURCE_DIR BUILD_DIR
# Installs Argosy, and builds the program of the README with the CMake file of
# the README against it, as a user would.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../integration/installed.sh
. "$here/../integration/installed.sh" "$1" "$2"
python3 "$source/tools/doc_snippets.py" project project "$source/README.md"
cmake -S project -B built -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build built
program=$(find built -maxdepth 1 -type f -executable)
timeout 60 "$work/prefix/bin/argosy" run -n 2 "$program"
