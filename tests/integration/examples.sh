# Sourced with SOURCE_DIR BUILD_DIR: goes to a new folder $work, which is
# removed at the end. $argosy is the command, $examples the folder with the
# examples' sources, $built the one with their programs.
examples=$1/examples
built=$2/examples
argosy=$2/apps/argosy/argosy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# run RANKS PROGRAM...: with `argosy run`
run() {
  timeout 100 "$argosy" run -n "$@"
}

# expect_output WHAT PRINTED EXPECTED
expect_output() {
  [ "$2" = "$3" ] || {
    printf '%s printed:\n%s\nexpected:\n%s\n' "$1" "$2" "$3" >&2
    exit 1
  }
  echo "$1: as expected"
}

# expect_within NAME LEAST MOST VALUE
expect_within() {
  awk -v name="$1" -v least="$2" -v most="$3" -v value="$4" 'BEGIN {
    if (!(value > least && value < most)) {
      print name " is " value ", expected " least " to " most
      exit 1
    }
  }' >&2
}

# loss_of STEP FILE: that a line "step STEP: loss VALUE" says
loss_of() {
  awk -v step="$1:" '$1 == "step" && $2 == step { print $4 }' "$2"
}
