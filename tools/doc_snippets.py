#!/usr/bin/env python3
"""usage: tools/doc_snippets.py sources OUT_DIR UNITS PAGE...
       tools/doc_snippets.py project OUT_DIR PAGE

Takes the code out of Markdown pages, for tests that compile and run it.

  sources  writes UNITS C++ sources that hold everything; see tests/docs
  project  writes the first CMake block and the first program of a page, and
           what it prints to printed.txt

A ```cpp block with `int main(` is a complete program, compiled in a namespace of
its own; `<!-- run: N -->` above it runs it under `argosy run -n N`. When the next
block is a ```console block that starts with `$ argosy run -n N`, the program must
print the lines that follow. Any other ```cpp block is a fragment, compiled as
the body of a function. The comment above it may hold options and lines of C++
that come first:

  <!-- snippet run=2
  torch::nn::Linear net(4, 2);
  -->

  run=N           runs the fragment on N thread ranks that have met
  continue        goes on in the function of the fragment before
  scope=file      stands at namespace scope, visible to later fragments
  scope=global    the same outside of the page's namespace, for specialisations
                  of Argosy's templates
  not-a-strategy  (a ```json block) is not parsed as a strategy"""
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Malformed(Exception):
    pass


@dataclasses.dataclass
class Line:
    number: int
    text: str


@dataclasses.dataclass
class Block:
    page: str
    language: str
    line: int  # of the opening fence
    lines: list
    options: dict
    setup: list

    def text(self):
        return "".join(line.text + "\n" for line in self.lines)

    def is_program(self):
        return self.language == "cpp" and re.search(r"\bint main\(", self.text()) is not None


# ---- Parsing ----------------------------------------------------------------


def fail(page, line, message):
    raise Malformed(f"{page}:{line}: {message}")


def options_of(page, line, words):
    options = {}
    for word in words:
        match = re.fullmatch(r"run=([1-9]\d*)", word)
        if match:
            options["run"] = int(match.group(1))
        elif word in ("scope=file", "scope=global"):
            options["scope"] = word[6:]
        elif word in ("continue", "not-a-strategy"):
            options[word] = True
        else:
            fail(page, line, f'unknown option "{word}", expected run=N, continue, scope=file, scope=global or not-a-strategy')
    if options.get("scope") and len(options) > 1:
        fail(page, line, f"scope={options['scope']} goes with no other option")
    return options


class Parser:
    def __init__(self, page, text):
        self.page = page
        self.lines = [Line(i + 1, t) for i, t in enumerate(text.splitlines())]
        self.at = 0
        self.blocks = []
        self.marker = None  # (line, options, setup) that waits for its block

    def parse(self):
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.text.startswith("```"):
                self.block()
            elif re.match(r"<!--\s*(snippet\b|run:)", line.text):
                self.comment()
            elif line.text.lstrip().startswith("```"):
                fail(self.page, line.number, "an indented block would not be tested")
            elif line.text.strip() and self.marker:
                self.orphan()
            else:
                self.at += 1
        if self.marker:
            self.orphan()
        return self.blocks

    def orphan(self):
        fail(self.page, self.marker[0], "this marker is not directly above a block")

    def comment(self):
        if self.marker:
            self.orphan()
        begin = self.lines[self.at]
        inside = []
        while "-->" not in self.lines[self.at].text:
            inside.append(self.lines[self.at])
            self.at += 1
            if self.at == len(self.lines):
                fail(self.page, begin.number, "this comment has no end")
        last = self.lines[self.at]
        before, after = last.text.split("-->", 1)
        if after.strip():
            fail(self.page, last.number, "text after the end of a marker")
        inside.append(Line(last.number, before))
        self.at += 1
        head = inside[0].text[4:].strip()
        if head.startswith("run:"):
            ranks = head[4:].strip()
            if not re.fullmatch(r"[1-9]\d*", ranks):
                fail(self.page, begin.number, f'"run: {ranks}", expected a number of ranks')
            self.marker = (begin.number, {"program": int(ranks)}, [])
            return
        words = head.split()[1:]
        setup = [line for line in inside[1:] if line.text.strip()]
        self.marker = (begin.number, options_of(self.page, begin.number, words), setup)

    def block(self):
        fence = self.lines[self.at]
        language = fence.text[3:].strip()
        if not re.fullmatch(r"[a-z]+", language):
            fail(self.page, fence.number, "a block without a language: cpp, json, cmake, sh, console, text, ...")
        self.at += 1
        inside = []
        while self.at < len(self.lines) and self.lines[self.at].text.rstrip() != "```":
            inside.append(self.lines[self.at])
            self.at += 1
        if self.at == len(self.lines):
            fail(self.page, fence.number, "this block has no end")
        self.at += 1
        line, options, setup = self.marker or (fence.number, {}, [])
        self.marker = None
        block = Block(self.page, language, fence.number, inside, options, setup)
        self.check(block, line)
        self.blocks.append(block)

    def check(self, block, line):
        takes = {"cpp": {"program"} if block.is_program() else {"run", "continue", "scope"},
                 "json": {"not-a-strategy"}}.get(block.language, set())
        for option in block.options:
            if option not in takes:
                what = {"program": "run: N", "scope": "scope=..."}.get(option, option)
                kind = "a program" if block.is_program() else f"a {block.language} block"
                fail(self.page, line, f'"{what}" does not go with {kind}')
        if block.setup and (block.language != "cpp" or block.is_program()):
            fail(self.page, line, "only fragments have lines of C++ that come first")


def parse(page, text):
    return Parser(page, text).parse()


def read_pages(paths):
    pages = []
    for path in sorted(pathlib.Path(p).resolve() for p in paths):
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
        pages.append((name, parse(name, path.read_text())))
    return pages


# ---- C++ ------------------------------------------------------------------


def identifier(page):
    return re.sub(r"\W", "_", pathlib.PurePath(page).with_suffix("").as_posix())


def at_line(page, number):
    return f'#line {number} "{page}"'


def body(block, includes):
    """The lines of a block, with #line where numbers jump, without #include."""
    lines = []
    next_number = None
    for line in block.setup + block.lines:
        if line.text.lstrip().startswith("#include"):
            includes.setdefault(line.text.strip(), (block.page, line.number))
            continue
        if line.number != next_number:
            lines.append(at_line(block.page, line.number))
        lines.append(line.text)
        next_number = line.number + 1
    return lines


# ---- Programs ---------------------------------------------------------------


@dataclasses.dataclass
class Program:
    block: Block
    ranks: int  # 0: compiled only
    printed: str | None


def printed_by(block, ranks):
    """What a console block after a program says that it prints."""
    if block is None or block.language != "console" or not block.lines:
        return None
    if not re.match(rf"\$ argosy run -n {ranks} ", block.lines[0].text):
        return None
    shown = []
    for line in block.lines[1:]:
        if line.text.startswith("$ "):
            break
        shown.append(line.text + "\n")
    return "".join(shown)


def programs(blocks):
    found = []
    for block, after in zip(blocks, [*blocks[1:], None]):
        if block.is_program():
            ranks = block.options.get("program", 0)
            found.append(Program(block, ranks, printed_by(after, ranks) if ranks else None))
    return found


def returning(block, lines):
    """main() of a namespace returns nothing by itself."""
    begin = next(i for i, line in enumerate(lines) if re.search(r"\bint main\(", line))
    end = next((i for i, line in enumerate(lines) if i > begin and line == "}"), None)
    if end is None:
        fail(block.page, block.line, "main() has no closing brace at the begin of a line")
    return [*lines[:end], "return 0;", *lines[end:]]


def program_source(program, includes):
    block = program.block
    name = f"{identifier(block.page)}_{block.line}"
    where = f"{block.page}:{block.line}"
    lines = returning(block, body(block, includes))
    out = ["", f"namespace {name}_program {{", *lines, f"}} // namespace {name}_program",
           f'const argosy_docs::Program {name}_main("{name}", &{name}_program::main);']
    if program.ranks:
        expected = "std::nullopt" if program.printed is None else f'R"text({program.printed})text"'
        out += [at_line(block.page, block.line), f"TEST({identifier(block.page)}, line_{block.line}) {{",
                f'  argosy_docs::run_program("{where}", {program.ranks}, "{name}", {expected});', "}"]
    return out


# ---- Fragments --------------------------------------------------------------


@dataclasses.dataclass
class Function:
    page: str
    name: str
    ranks: int
    lines: list


@dataclasses.dataclass
class Scope:
    kind: str  # file or global
    lines: list


def functions_and_scope(page, blocks, includes):
    """What a page has outside of functions, and functions of fragments."""
    items = []
    last = None
    for block in blocks:
        if block.language != "cpp" or block.is_program():
            continue
        lines = body(block, includes)
        if block.options.get("scope"):
            items.append(Scope(block.options["scope"], lines))
        elif block.options.get("continue"):
            if last is None:
                fail(page, block.line, "there is no fragment before to continue")
            ranks = block.options.get("run", last.ranks)
            if ranks != last.ranks:
                fail(page, block.line, f"run={ranks}, but the fragment before has run={last.ranks}")
            last.lines += lines
        else:
            last = Function(page, f"line_{block.line}", block.options.get("run", 0), lines)
            items.append(last)
    return items


def strategies(blocks):
    return [b for b in blocks if b.language == "json" and not b.options.get("not-a-strategy")]


def page_source(page, blocks, includes):
    items = functions_and_scope(page, blocks, includes)
    name = identifier(page)
    out = [f"// ---- {page}"]
    for item in items:
        if isinstance(item, Scope) and item.kind == "global":
            out += [*item.lines, ""]
    out += [f"namespace {name}_page {{"]
    for item in items:
        if isinstance(item, Function):
            out += ["", f"void {item.name}() {{", *item.lines, "}"]
        elif item.kind == "file":
            out += ["", *item.lines]
    out += ["", f"}} // namespace {name}_page", ""]
    for item in items:
        if isinstance(item, Function) and item.ranks:
            line = item.name[5:]
            out += [at_line(page, line), f"TEST({name}, {item.name}) {{",
                    f'  argosy_docs::run_fragment("{page}:{line}", {item.ranks}, &{name}_page::{item.name});', "}"]
    for block in strategies(blocks):
        out += [at_line(page, block.line), f"TEST({name}, line_{block.line}) {{",
                f'  argosy_docs::check_strategy("{page}:{block.line}", R"json({block.text()})json");', "}"]
    for program in programs(blocks):
        out += program_source(program, includes)
    return out


def unit_source(pages):
    includes = {}
    sources = [line for page, blocks in pages for line in page_source(page, blocks, includes)]
    out = ["// Made by tools/doc_snippets.py from the pages that #line names.", "",
           "#include <argosy/argosy.h>", "#include <gtest/gtest.h>", "#include <torch/torch.h>", ""]
    for include, (page, number) in includes.items():
        out += [at_line(page, number), include]
    return "\n".join([*out, "", '#include "run_snippet.h"', "", *sources]) + "\n"


# ---- Writing ----------------------------------------------------------------


def write(path, text):
    """Leaves a file that has this text alone, so that nothing is rebuilt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_sources(out, units, paths):
    pages = read_pages(paths)
    for unit in range(units):
        write(out / f"snippets_{unit}.cpp", unit_source(pages[unit::units]))


def write_project(out, page):
    (name, blocks), = read_pages([page])
    cmake = next((b for b in blocks if b.language == "cmake"), None)
    program = next(iter(programs(blocks)), None)
    if cmake is None or program is None:
        fail(name, 1, "no CMake block, or no program")
    source = re.search(r"add_executable\(\w+ (\S+)\)", cmake.text())
    if source is None:
        fail(name, cmake.line, "no add_executable(NAME SOURCE)")
    write(out / "CMakeLists.txt", cmake.text())
    write(out / source.group(1), program.block.text())
    write(out / "printed.txt", program.printed or "")


def main(arguments):
    match arguments:
        case ["sources", out, units, *paths]:
            write_sources(pathlib.Path(out), int(units), paths)
        case ["project", out, page]:
            write_project(pathlib.Path(out), page)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Malformed as problem:
        sys.exit(str(problem))
