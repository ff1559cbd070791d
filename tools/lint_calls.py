#!/usr/bin/env python3
"""Calls that the library may not make.

A line with `lint: allow <word>` and a reason is let through."""
import pathlib
import re
import sys

RULES = [
    ("exit", re.compile(r"(?<![\w.>])(?:std::|::)?(?:_exit|exit|quick_exit|_Exit)\s*\("),
     "the library never ends the program"),
    ("abort", re.compile(r"(?<![\w.>])(?:std::|::)abort\s*\(|(?<![\w.>:])abort\s*\(\s*\)\s*;"),
     "throw InternalError instead"),
    ("runtime_error", re.compile(r"throw\s+std::(?:runtime_error|logic_error|invalid_argument)"),
     "throw a class of argosy/common/error.h"),
    ("fork", re.compile(r"(?<![\w.>])(?:::)?v?fork\s*\(\s*\)"),
     "torch hangs after fork; use posix_spawn (the launcher alone may fork)"),
    ("torch.h", re.compile(r"#\s*include\s*[\"<]torch/(?:torch|nn)\.h"),
     "costs 12 s a file; include what is used"),
]


def strip_comment(line):
    return line.split("//")[0]


def main():
    found = False
    for path in sorted(p for p in pathlib.Path("argosy").rglob("*") if p.suffix in (".h", ".cpp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for word, pattern, advice in RULES:
                if f"lint: allow {word}" in line:
                    continue
                if pattern.search(strip_comment(line)):
                    print(f"{path}:{number}: {word}: {advice}")
                    found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
