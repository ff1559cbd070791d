#!/usr/bin/env python3
"""A module includes only itself and modules above it in this list."""
import pathlib
import re
import sys

LAYERS = """common store heap world launch comm observe fs data mesh dtensor optim
parallel program plan checkpoint rpc ps elastic fleet testing""".split()
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]argosy/([^/">]+)(/?)')


def violations(path, module):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target, slash = match.groups()
        if not slash:
            yield number, f"the library never includes the umbrella {target}"
        elif target not in LAYERS:
            yield number, f"unknown module {target}"
        elif LAYERS.index(target) > LAYERS.index(module):
            yield number, f"{module} may not include {target}, a layer below it"


def main():
    root = pathlib.Path("argosy")
    found = False
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".h", ".cpp")):
        parts = path.relative_to(root).parts
        if len(parts) == 1:
            continue  # the umbrella itself
        if parts[0] not in LAYERS:
            print(f"{path}: module {parts[0]} is not in tools/lint_layers.py")
            found = True
            continue
        for number, text in violations(path, parts[0]):
            print(f"{path}:{number}: {text}")
            found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
