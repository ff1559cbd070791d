"""Links between pages lead to files and headings that exist, and headers that a
page names exist."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = re.compile(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+\.h)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img[^>]* src=\"([^\"]+)\"")


def pages():
    return [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]


def lines_of(page):
    """The lines of a page that are not in a block."""
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield number, re.sub(r"`[^`]*`", lambda m: " " * len(m[0]) if "](" in m[0] else m[0], line)


def anchor(heading):
    words = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return words.strip().replace(" ", "-")


def anchors_of(page):
    return {anchor(line.lstrip("#")) for _, line in lines_of(page) if line.startswith("#")}


def headers():
    """All ends of paths of headers: "a/b/c.h" has "b/c.h" and "c.h"."""
    ends = set()
    for path in (p for top in ("argosy", "bindings", "examples", "tests") for p in ROOT.glob(f"{top}/**/*.h")):
        parts = path.relative_to(ROOT).parts
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    return ends


def unknown_headers_in(page, known):
    for number, line in lines_of(page):
        for name in HEADER.findall(line):
            if name not in known and not name.startswith(("torch/", "c10/", "ATen/")):
                yield f"{page.relative_to(ROOT)}:{number}: there is no header {name}"


def broken_in(page):
    for number, line in lines_of(page):
        for match in LINK.finditer(line):
            link = match[1] or match[2]
            if re.match(r"[a-z]+:", link):
                continue
            path, _, heading = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            where = f"{page.relative_to(ROOT)}:{number}"
            if not target.exists():
                yield f"{where}: there is no {path}"
            elif heading and heading not in anchors_of(target):
                yield f"{where}: {path or page.name} has no heading for #{heading}"


known = headers()
broken = [each for page in sorted(pages()) for each in [*broken_in(page), *unknown_headers_in(page, known)]]
sys.exit("\n".join(broken) if broken else 0)
