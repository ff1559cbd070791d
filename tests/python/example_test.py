"""usage: example_test.py ARGOSY EXAMPLE_DIR

The example prints what it says, whoever starts it."""
import pathlib
import re
import subprocess
import sys


def expect(expected, *command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=100, check=True)
    if done.stdout.strip() != expected:
        sys.exit(f"{command} printed {done.stdout!r}, expected {expected!r}")


def main():
    argosy, example = sys.argv[1], pathlib.Path(sys.argv[2])
    script = example / "train.py"
    expected = re.search(r"^prints\n *(.*)$", script.read_text(), re.M).group(1)
    expect(expected, argosy, "run", "-n", "2", sys.executable, script)
    # Debian's torchrun does not work without -r and -t; 2 is standard error.
    expect(
        expected, sys.executable, "-m", "torch.distributed.run", "--standalone", "-r", "2", "-t", "2",
        "--nproc_per_node", "2", script)


if __name__ == "__main__":
    main()
