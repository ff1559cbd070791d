"""Links between pages lead to files, and to headings, that exist."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
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


broken = [each for page in sorted(pages()) for each in broken_in(page)]
sys.exit("\n".join(broken) if broken else 0)
