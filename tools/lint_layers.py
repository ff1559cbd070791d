#!/usr/bin/env python3
"""Checks the layout of argosy/ against the table of layers in CONTRIBUTING.md.

- Every module has a row, and every row has a folder. A subfolder may have a row
  of its own; else it belongs to the module.
- A folder includes itself and folders above it in the table only.
- Path is namespace: what argosy/a/b/ defines is in argosy, argosy::a or
  argosy::a::b. Other namespaces are opened to declare their classes and to
  specialise their templates, no more."""
import pathlib
import re
import sys

ROOT = pathlib.Path("argosy")
ROW = re.compile(r"^\| `argosy/([\w/]+)/` \|", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]argosy/([^">]+)[">]')
BLOCK = re.compile(r"^namespace (argosy[\w:]*) \{\n(.*?)^\}(?: // namespace [^\n]*)?$", re.M | re.S)
SPECIALISATION = re.compile(r"^template <>\nstruct \w+<.*?^\};", re.M | re.S)
DECLARATION = re.compile(r"(?:template <[^;{}]*>\s*)?(?:class|struct|enum class)\s+\w+[^;{}()]*;|namespace \w+ \{|\}")

# Namespaces that users know by name, and the folders that define them.
PUBLIC = {
    "argosy::log": "common",
    "argosy::fleet": "compat",
    "argosy::fleet::utils": "fleet compat",
    "argosy::functional": "comm",
    "argosy::mpi": "comm",
    "argosy::sharding": "compat",
    "argosy::stream": "compat",
}


def layers():
    return ROW.findall(pathlib.Path("CONTRIBUTING.md").read_text())


def folder_of(path, known):
    """The row of the table that an include or a file belongs to."""
    parts = path.split("/")[:-1]
    while parts and "/".join(parts) not in known:
        parts.pop()
    return "/".join(parts)


def include_errors(text, folder, known):
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        if "/" not in match.group(1):
            yield number, f"the library never includes the umbrella {match.group(1)}"
            continue
        target = folder_of(match.group(1), known)
        if target not in known:
            yield number, f"{match.group(1)} is in no layer"
        elif known.index(target) > known.index(folder):
            yield number, f"{folder} may not include {target}, a layer below it"


def allowed_namespaces(relative):
    parts = relative.split("/")[:-1]
    return {"argosy"} | {"::".join(["argosy", *parts[:n]]) for n in range(1, len(parts) + 1)}


def namespace_errors(text, relative):
    allowed = allowed_namespaces(relative)
    for match in BLOCK.finditer(text):
        name, body = match.groups()
        base = name.removesuffix("::detail")
        if base in allowed or relative.split("/")[0] in PUBLIC.get(base, "").split():
            continue
        body = SPECIALISATION.sub("", re.sub(r"//[^\n]*", "", body))
        if DECLARATION.sub("", body).strip():
            yield text.count("\n", 0, match.start()) + 1, f"defines names of {name}, expected one of {', '.join(sorted(allowed))}"


def sources():
    for path in sorted(ROOT.rglob("*")):
        relative = str(path.relative_to(ROOT))
        if path.suffix in (".h", ".cpp") and "/" in relative:
            yield path, relative


def main():
    known = layers()
    found = [f"CONTRIBUTING.md: argosy/{row}/ does not exist" for row in known if not (ROOT / row).is_dir()]
    for path, relative in sources():
        folder = folder_of(relative, known)
        if not folder:
            found.append(f"{path}: its folder has no row in CONTRIBUTING.md")
            continue
        text = path.read_text()
        for number, error in [*include_errors(text, folder, known), *namespace_errors(text, relative)]:
            found.append(f"{path}:{number}: {error}")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
