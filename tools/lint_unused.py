#!/usr/bin/env python3
"""usage: tools/lint_unused.py BUILD_DIR

Finds what public headers declare and nothing uses: not the library, the
command, the bindings, a test, a bench, an example or a page of docs/. Names are
compared as words, so a name that two classes share counts for both.

A line with `lint: allow unused` and a reason is let through."""
import collections
import json
import pathlib
import re
import subprocess
import sys

CODE = ["argosy", "apps", "bindings", "tests", "bench", "examples"]
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
DECLARED = {"alias", "class", "enum", "enumerator", "function", "macro", "member", "prototype", "struct", "typedef",
            "union", "variable"}


def files():
    for folder in CODE:
        yield from (p for p in sorted(pathlib.Path(folder).rglob("*")) if p.suffix in (".h", ".cpp", ".py"))
    yield from sorted(pathlib.Path("docs").rglob("*.md"))
    yield pathlib.Path("README.md")


def tags(paths):
    """Where names are declared or defined: a list of what ctags says of each."""
    done = subprocess.run(
        ["ctags", "--output-format=json", "--languages=C++", "--langmap=C++:+.h", "--kinds-C++=+p",
         "-I", "TORCH_ARG+,TORCH_MODULE+", "--fields=+naKS", "-L", "-", "-f", "-"],
        input="\n".join(map(str, paths)), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_public(tag):
    own = tag.get("scope", "").split("::")[-1]
    return (tag["kind"] in DECLARED and tag.get("access", "public") == "public"
            and tag["name"].isidentifier() and tag["name"] != own and "__anon" not in tag["name"])


def without_comments(text):
    return re.sub(r'//[^\n]*|("(?:\\.|[^"\\\n])*")', lambda m: m.group(1) or "", text)


def uses(paths, declared):
    """How often each name stands where it is not declared or defined."""
    count = collections.Counter()
    for path in paths:
        text = path.read_text()
        if path.suffix in (".h", ".cpp"):
            text = without_comments(text)
        for number, line in enumerate(text.splitlines(), 1):
            words = collections.Counter(WORD.findall(line))
            for word in words:
                count[word] += words[word] - (1 if (str(path), number, word) in declared else 0)
    return count


def main():
    build = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).parent.parent.resolve()
    public = {str(pathlib.Path(line).relative_to(root)) for line in (build / "public_headers.txt").read_text().split()}
    paths = list(files())
    found = tags(p for p in paths if p.parts[0] == "argosy" and p.suffix in (".h", ".cpp"))
    count = uses(paths, {(tag["path"], tag["line"], tag["name"]) for tag in found})
    unused = 0
    for tag in found:
        if tag["path"] not in public or not is_public(tag) or count[tag["name"]] > 0:
            continue
        line = pathlib.Path(tag["path"]).read_text().splitlines()[tag["line"] - 1]
        if "lint: allow unused" not in line:
            print(f"{tag['path']}:{tag['line']}: nothing uses {tag['kind']} {tag.get('scope', '')}::{tag['name']}")
            unused += 1
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
