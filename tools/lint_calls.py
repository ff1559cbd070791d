#!/usr/bin/env python3
"""Calls that the library may not make.

A line with `lint: allow <word>` and a reason is let through. Inside
argosy/torch_hooks/ the names of LibTorch's inside are allowed."""
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
    ("thread_local", re.compile(r"\bthread_local\b"),
     "what belongs to a thread hangs on its ThreadContext (argosy/common/thread_context.h)"),
]

# What depends on LibTorch's inside, and so on its version.
TORCH_INSIDE = re.compile(
    r"TORCH_LIBRARY|torch/library\.h|DispatchKey\b|c10::impl::|BackendComponent"
    r"|torch/csrc/autograd/(?!custom_function\.h|autograd\.h)|autograd::(?:impl|Engine|Node|Edge)\b"
    r"|SavedVariable|FunctionP(?:re|ost)Hook|at::autocast::|ATen/autocast_mode|ThreadLocalDebugInfo"
    r"|SetCPUAllocator|mallopt|shallow_copy_|bump_version\(\)|hasKernelForDispatchKey")
RULES.append(("torch_inside", TORCH_INSIDE, "LibTorch's inside is for argosy/torch_hooks/ alone"))


def strip_comment(line):
    return line.split("//")[0]


def main():
    found = False
    for path in sorted(p for p in pathlib.Path("argosy").rglob("*") if p.suffix in (".h", ".cpp")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for word, pattern, advice in RULES:
                if f"lint: allow {word}" in line:
                    continue
                if word == "thread_local" and path.stem == "thread_context":
                    continue
                if word == "torch_inside" and path.parts[1] in ("torch_hooks", "precompiled.h"):
                    continue
                if pattern.search(strip_comment(line)):
                    print(f"{path}:{number}: {word}: {advice}")
                    found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
