#!/usr/bin/env python3
"""usage: tools/bench_chart.py [--check]

Draws docs/images/speed.svg and writes the claims of README.md, what stands
between <!-- claims --> and <!-- end -->, from the tables of docs/performance.md.
tools/bench calls it after it has renewed the tables. With --check, fails when
either differs from what the tables say, and writes nothing."""
import difflib
import math
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "images" / "speed.svg"
README = ROOT / "README.md"

# Heading of a section, its peer, and its bars: label, subject, row, and the
# peer where it has another name.
SECTIONS = [
    ("Training step, 2 processes, beside PyTorch 1.13 DDP over Gloo", "pytorch", [
        ("MLP, 50 M parameters", "data_parallel", "mlp, 50 M parameters, 64 samples a rank"),
        ("CNN on Fashion-MNIST", "data_parallel", "cnn, Fashion-MNIST, 64 pictures a rank"),
        ("GPT, 10 M parameters", "data_parallel", "gpt, 10 M parameters, 512 tokens a rank"),
        ("the same GPT, 8 times the batch", "data_parallel", "gpt, 10 M parameters, 512 tokens a rank, 8 times"),
    ]),
    ("ZeRO stage 3, beside DDP with ZeroRedundancyOptimizer (stage 1)", "pytorch_zero", [
        ("MLP, 50 M parameters", "sharding", "mlp, 50 M parameters, 64 samples a rank, stage 3"),
        ("GPT, 10 M parameters", "sharding", "gpt, 10 M parameters, 512 tokens a rank, stage 3"),
    ]),
    ("Parallel layers, beside the same by hand on PyTorch 1.13 and Gloo", "pytorch", [
        ("tensor parallel, 4 blocks", "tensor_parallel", "4 blocks of width 512, 512 tokens, cut in 2"),
        ("32 experts, 4 for each token", "moe", "32 experts of 512 x 512, 4 for each of 2048 tokens"),
        ("pipeline, 2 stages, 1F1B", "pipeline", "gpt, 2 stages, 1f1b", "pytorch_1f1b"),
        ("the same, zero bubble (ZBV)", "pipeline", "gpt, 2 stages, zbv", "pytorch_1f1b"),
    ]),
    ("Adam step, beside torch::optim::Adam", "torch", [
        ("4 tensors of 4 M elements", "optim", "Adam, 4 tensors of 4M"),
        ("200 tensors of 1000 elements", "optim", "Adam, 200 tensors of 1000"),
    ]),
    ("all_reduce between 2 processes, beside Open MPI 4.1", "openmpi", [
        ("64 KB", "comm", "all_reduce, 2 ranks, 64 KB"),
        ("16 MB", "comm", "all_reduce, 2 ranks, 16 MB"),
    ]),
    ("all_reduce between 2 processes, beside Gloo", "gloo", [
        ("64 KB", "comm", "all_reduce, 2 ranks, 64 KB"),
        ("16 MB", "comm", "all_reduce, 2 ranks, 16 MB"),
    ]),
]

MLP = ("data_parallel", "mlp, 50 M parameters, 64 samples a rank")
GPT = ("data_parallel", "gpt, 10 M parameters, 512 tokens a rank")
MLP_ZERO = ("sharding", "mlp, 50 M parameters, 64 samples a rank, stage 3")
GPT_ZERO = ("sharding", "gpt, 10 M parameters, 512 tokens a rank, stage 3")
SUM = ("comm", "all_reduce, 2 ranks, 16 MB")


# ---- The tables -------------------------------------------------------------


def read_tables(text):
    """{subject: {row: {column: text}}}"""
    tables = {}
    for subject, block in re.findall(r"<!-- bench:(\w+) -->\n(.*?)<!-- end -->", text, re.S):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        head, rows = rows[0], rows[2:]
        tables[subject] = {row[0]: dict(zip(head, row)) for row in rows}
    return tables


def cell(tables, subject, row, column):
    try:
        value = tables[subject][row][column]
    except KeyError as missing:
        sys.exit(f'{TABLES.name}: the table "{subject}" has no {missing} for "{row}", which {pathlib.Path(__file__).name} draws')
    if not value:
        sys.exit(f'{TABLES.name}: "{row}" of "{subject}" has no value for "{column}"')
    return value


def times(tables, subject, row, peer):
    return cell(tables, subject, row, f"times better than {peer}")


# ---- The claims -------------------------------------------------------------


def claims(tables):
    def of(key, column):
        return cell(tables, *key, column)

    def by(key, peer):
        return times(tables, *key, peer)

    texts = [
        f"**Training:** one data-parallel step of an MLP with 50 M parameters runs {by(MLP, 'pytorch')} times as fast as "
        f"with PyTorch's DDP ({of(MLP, 'ours')} and {of(MLP, 'pytorch')} samples/s on 2 processes), and of a GPT with "
        f"10 M parameters {by(GPT, 'pytorch')} times as fast.",
        f"**Sharding:** ZeRO stage 3 trains the same models at {by(MLP_ZERO, 'data_parallel')} and "
        f"{by(GPT_ZERO, 'data_parallel')} of the speed of plain data parallelism: {by(MLP_ZERO, 'pytorch_zero')} and "
        f"{by(GPT_ZERO, 'pytorch_zero')} times as fast as DDP with `ZeroRedundancyOptimizer`, which shards only the "
        "optimizer state.",
        f"**Communication:** `all_reduce` of 16 MB between 2 processes reaches a bus bandwidth of {of(SUM, 'ours')} GB/s, "
        f"{by(SUM, 'gloo')} times that of Gloo and {by(SUM, 'openmpi')} times that of Open MPI, and always adds in rank "
        "order.",
    ]
    return "".join(textwrap.fill(text, 120, initial_indent="- ", subsequent_indent="  ") + "\n" for text in texts)


def with_claims(readme, tables):
    block = re.compile(r"(<!-- claims -->\n).*?(<!-- end -->)", re.S)
    if not block.search(readme):
        sys.exit("README.md has no <!-- claims --> ... <!-- end -->")
    return block.sub(lambda m: m.group(1) + claims(tables) + m.group(2), readme)


# ---- The chart --------------------------------------------------------------

WIDTH = 820
LEFT = 270  # where the bars' axis stands at 1
RIGHT = 60  # room for the last label
ROW = 22
HEADING = 30
TOP = 62
INK = "#1f2933"
SOFT = "#7b8794"
GRID = "#e4e7eb"
COLORS = ["#1f6feb", "#0b8a8f", "#7a52cc", "#c2571a", "#3d7a2f", "#a8325a"]
FONT = "font-family=\"-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif\""


def bars(tables):
    sections = []
    for title, peer, rows in SECTIONS:
        drawn = []
        for label, subject, row, *other in rows:
            drawn.append((label, float(times(tables, subject, row, *(other or [peer])))))
        sections.append((title, drawn))
    return sections


def axis_end(sections):
    longest = max(ratio for _, rows in sections for _, ratio in rows)
    return 2 ** max(1, math.ceil(math.log2(longest)))


def x_of(ratio, end):
    return LEFT + math.log2(ratio) / math.log2(end) * (WIDTH - LEFT - RIGHT)


def text(x, y, words, fill=INK, size=13, anchor="start", weight="normal"):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}" '
            f'text-anchor="{anchor}" font-weight="{weight}">{words}</text>')


def ticks(end):
    return [2**i for i in range(int(math.log2(end)) + 1)]


def grid(end, top, bottom):
    out = []
    for ratio in ticks(end):
        x = x_of(ratio, end)
        stroke = SOFT if ratio == 1 else GRID
        out.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{stroke}"/>')
    return out


def bar(label, ratio, color, y, end):
    begin, stop = sorted((x_of(1, end), x_of(ratio, end)))
    return [
        text(LEFT - 10, y + 14, label, anchor="end"),
        f'<rect x="{begin:.1f}" y="{y + 2}" width="{max(stop - begin, 1):.1f}" height="{ROW - 6}" rx="2" fill="{color}"/>',
        text(stop + 6, y + 14, f"{ratio:.3g}x", color, 12, weight="bold"),
    ]


def chart(tables):
    sections = bars(tables)
    end = axis_end(sections)
    body = []
    y = TOP
    for color, (title, rows) in zip(COLORS, sections):
        body.append(text(20, y + 19, title, color, 13, weight="bold"))
        y += HEADING
        body += grid(end, y - 2, y + ROW * len(rows))
        for label, ratio in rows:
            body += bar(label, ratio, color, y, end)
            y += ROW
        y += 6
    height = y + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        "<title>How many times as fast as the peer of the same run Argosy is</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        text(20, 28, "How many times as fast as its peer", size=17, weight="bold"),
        text(20, 48, "Measured side by side in one run on 2 cores; logarithmic scale; 1x is the peer", SOFT, 12),
        *body,
        *[text(x_of(ratio, end), y + 10, f"{ratio}x", SOFT, 11, "middle") for ratio in ticks(end)],
        "</svg>",
    ]
    return "\n".join(out) + "\n"


# ---- Writing ----------------------------------------------------------------


def check(path, wanted):
    had = path.read_text() if path.exists() else ""
    if had == wanted:
        return True
    sys.stderr.writelines(difflib.unified_diff(
        had.splitlines(True), wanted.splitlines(True), path.name, "as the tables of performance.md say"))
    return False


def main():
    tables = read_tables(TABLES.read_text())
    made = {CHART: chart(tables), README: with_claims(README.read_text(), tables)}
    if sys.argv[1:] == ["--check"]:
        same = [check(path, wanted) for path, wanted in made.items()]
        sys.exit(0 if all(same) else "run tools/bench_chart.py")
    if sys.argv[1:]:
        sys.exit(__doc__)
    CHART.parent.mkdir(parents=True, exist_ok=True)
    for path, wanted in made.items():
        path.write_text(wanted)


if __name__ == "__main__":
    main()
