#!/usr/bin/env python3
"""usage: tools/lint_headers.py BUILD_DIR

Compiles every public header alone, and counts the lines that the compiler sees
when a program includes it. A header that brings more than its budget fails:
forward-declare, or move what needs the include to a source file. Lines, because
they are the same on every machine: 100,000 cost about 2 s.

A header is compiled again only when what it includes has changed."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

# at::Tensor by value costs 113,000 lines, c10d::Store 129,000.
BUDGET = 135_000
# Of headers that need more, and why.
MODULE = 200_000  # derive from torch::nn::Module or from torch's optimizers
CLONEABLE = 235_000  # derive from torch::nn::Cloneable
JSON = 145_000  # hold tensors, and have nlohmann's JSON in templates
UMBRELLA = 220_000
LARGER = {
    "argosy/argosy.h": UMBRELLA,
    "argosy/checkpoint/checkpointer.h": JSON,
    "argosy/checkpoint/model_file.h": JSON,
    "argosy/checkpoint/state.h": JSON,
    "argosy/checkpoint/state_part.h": JSON,
    "argosy/data_parallel/sync_batch_norm.h": MODULE,
    "argosy/expert/gates.h": MODULE,
    "argosy/expert/grouped_experts.h": MODULE,
    "argosy/expert/moe_layer.h": MODULE,
    "argosy/optim/adagrad.h": MODULE,
    "argosy/optim/adam.h": MODULE,
    "argosy/optim/lamb.h": MODULE,
    "argosy/optim/sgd.h": MODULE,
    "argosy/pipeline/cut/cut_stage.h": MODULE,
    "argosy/pipeline/layer_desc.h": MODULE,
    "argosy/pipeline/pipeline_layer.h": MODULE,
    "argosy/ps/worker/sparse_embedding.h": CLONEABLE,
    "argosy/sequence_parallel/layers.h": CLONEABLE,
    "argosy/tensor_parallel/grid_layers.h": CLONEABLE,
    "argosy/tensor_parallel/layers.h": CLONEABLE,
}


def compiler(build):
    """The command that compiles a source of libargosy.so, without files, and
    without headers that are precompiled."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if "argosy.dir" in entry["command"] and "cmake_pch" not in entry["file"]:
            words = shlex.split(entry["command"])
            kept = [words[0]]
            for before, word in zip(words, words[1:]):
                if before == "-isystem" or word == "-isystem" or re.match(r"-(I|D|std|W|f)", word):
                    kept.append(word)
            return [w for w in kept if w not in ("-Winvalid-pch", "-fpch-preprocess")]
    sys.exit(f"lint: no source of libargosy.so in {build}/compile_commands.json")


def run(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def check(header, command, seen):
    """Returns (lines, error)."""
    done = run([*command, "-E", "-x", "c++", "-"], f'#include "{header}"\n')
    if done.returncode:
        return 0, f"{header} does not compile alone\n{done.stderr}"
    code = [line for line in done.stdout.splitlines() if line.strip() and line[0] != "#"]
    stamp = seen / hashlib.sha256("\n".join([*command, done.stdout]).encode()).hexdigest()
    if not stamp.exists():
        parsed = run([*command, "-fsyntax-only", "-x", "c++-cpp-output", "-"], done.stdout)
        if parsed.returncode:
            return len(code), f"{header} does not compile alone\n{parsed.stderr}"
        stamp.touch()
    budget = LARGER.get(header, BUDGET)
    if len(code) > budget:
        return len(code), f"{header} costs {len(code):,} lines, its budget is {budget:,} (tools/lint_headers.py)"
    return len(code), None


def main():
    build = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).parent.parent.resolve()
    lines = (build / "public_headers.txt").read_text().split()
    headers = [str(pathlib.Path(line).relative_to(root)) for line in lines]
    seen = build / "headers_seen"
    seen.mkdir(exist_ok=True)
    command = compiler(build)
    errors = [f"tools/lint_headers.py: {name} is not a public header" for name in LARGER if name not in headers]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda header: check(header, command, seen), headers))
    errors += [error for _, error in results if error]
    heaviest = sorted(zip(results, headers), key=lambda item: -item[0][0])[:3]
    print(f"{len(headers)} headers; heaviest: " + ", ".join(f"{h} {r[0]:,} lines" for r, h in heaviest))
    print("\n".join(errors), end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
