#!/usr/bin/python3
"""usage: run_opinfo.py [--page FILE [--write]] [--details FILE] [NAME ...]

Runs PyTorch's samples of its own ops (OpInfo) on DTensors, among 2 and 3 ranks
that are threads, and compares with the ops on plain tensors: values, and
gradients. With --page, which ops agree and which do not, and why, must be what
stands in the file; --write writes it. An op that gives something wrong fails in
any case."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

import page

HERE = pathlib.Path(__file__).resolve().parent
STUBS = HERE / "stubs"

# An op that hangs ends after this, and with it the process that checks it.
OP_LIMIT = 60


class Worker:
    """A process that checks one op after the other."""

    def __init__(self):
        self.log = tempfile.TemporaryFile("w+")
        environment = dict(
            os.environ, OMP_NUM_THREADS="1", ARGOSY_LOG="error",
            PYTHONPATH=os.pathsep.join([str(STUBS), os.environ.get("PYTHONPATH", "")]))
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", HERE / "opinfo_worker.py"], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def check(self, name):
        """Its answer; None when it gave none."""
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], OP_LIMIT)
        line = self.process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


def run_some(names, answers):
    """Takes names until there are none, in a process of its own."""
    worker = None
    while True:
        try:
            name = names.popleft()
        except IndexError:
            break
        worker = worker or Worker()
        began = time.monotonic()
        answer = worker.check(name)
        if answer is None:
            answer = {"failed": "the process died or gave no answer\n" + worker.output()[-4000:]}
            worker.end()
            worker = None
        answers[name] = dict(answer, seconds=round(time.monotonic() - began, 2))
        outcome, why = verdict(answer)
        print(f"{outcome:9}{answers[name]['seconds']:6.2f} s  {name}  {why}", flush=True)
    if worker:
        worker.end()


def run_all(names):
    """As many at once as there are cores: Python lets the ranks of one process
    run one at a time."""
    answers = {}
    left = collections.deque(names)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = [pool.submit(run_some, left, answers) for _ in range(os.cpu_count())]
        for one in done:
            one.result()
    return {name: answers[name] for name in names}


def verdict(answer):
    """Of one op: rule, gathered, refused, unfit or wrong; and why."""
    if "failed" in answer:
        return "wrong", answer["failed"]
    outcomes, reasons = answer["outcomes"], answer["reasons"]
    for outcome in ("wrong", "refused"):
        if outcomes.get(outcome):
            return outcome, reasons[outcome]
    if not outcomes.get("agrees"):
        return "unfit", reasons.get("unfit", "takes no tensor, or needs another device")
    return ("gathered", " ".join(answer["gathered"])) if answer["gathered"] else ("rule", "")


def by_reason(answers, outcome):
    """The names of those ops, grouped by why."""
    names = collections.defaultdict(list)
    for name, answer in sorted(answers.items()):
        what, why = verdict(answer)
        if what == outcome:
            names[why].append(f"`{name}`")
    return sorted(names.items())


def table(answers, outcome, first, second):
    """In as many rows as there are reasons."""
    lines = [f"| {first} | {second} |", "|---|---|"]
    for why, names in by_reason(answers, outcome):
        cell = why.replace("|", "\\|")
        if outcome == "gathered":
            cell = " ".join(f"`{op}`" for op in why.split())
        lines.append(f"| {cell} | {' '.join(names)} |")
    return lines + [""]


def summary(answers):
    """What stands in the docs."""
    counts = collections.Counter(verdict(answer)[0] for answer in answers.values())
    cases = sum(sum(answer.get("outcomes", {}).values()) for answer in answers.values())
    agree = sum(answer.get("outcomes", {}).get("agrees", 0) for answer in answers.values())
    ran = len(answers) - counts["unfit"]
    lines = [
        f"{len(answers)} entries, {ran} of which apply; {counts['rule'] + counts['gathered']} agree in all their "
        f"cases, {counts['rule']} of them without an op that lacks a rule. Of {cases} cases {agree} agree.", "",
        f"### By rules ({counts['rule']})", ""]
    for _, names in by_reason(answers, "rule"):
        lines += [" ".join(names), ""]
    lines += [f"### With gathered inputs ({counts['gathered']})", ""]
    lines += table(answers, "gathered", "ops without a rule", "entries")
    lines += [f"### Refused, in some case at least ({counts['refused']})", ""]
    lines += table(answers, "refused", "what is said", "entries")
    lines += [f"### Does not apply ({counts['unfit']})", ""]
    lines += table(answers, "unfit", "why", "entries")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--details", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    sys.path.insert(0, str(STUBS))
    import opinfo_cases
    answers = run_all(arguments.names or list(opinfo_cases.load()))
    if arguments.details:
        arguments.details.write_text(json.dumps(answers, indent=1))
    counts = collections.Counter(verdict(answer)[0] for answer in answers.values())
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    if arguments.page and not arguments.names:
        page.check(arguments.page, "opinfo", summary(answers), arguments.write)
    if counts["wrong"]:
        sys.exit("wrong: " + " ".join(n for n, answer in answers.items() if verdict(answer)[0] == "wrong"))


if __name__ == "__main__":
    main()
