#!/usr/bin/python3
"""usage: run_suite.py [--ranks N] [--page FILE [--renew]] [NAME ...]

Runs PyTorch's own tests of torch.distributed on the backend argosy, among N
processes (3). With --page, what passes and what does not apply must be what
stands in the file; --renew writes it."""
import argparse
import collections
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
sys.path.insert(0, str(HERE / "stubs"))

# A test that hangs ends after this, and with it the ranks.
TEST_LIMIT = 90
# What the ranks have to come to an end once one of them failed.
GRACE = 10


class Ranks:
    """Processes that run one test after the other, together."""

    def __init__(self, size, directory):
        import torch.distributed as dist
        self.store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        environment = dict(
            os.environ, TEMP_DIR=directory, WORLD_SIZE=str(size), OMP_NUM_THREADS="1",
            PYTHONPATH=os.pathsep.join([str(HERE / "stubs"), os.environ.get("PYTHONPATH", "")]))
        self.log = open(pathlib.Path(directory) / "log", "w+")
        self.processes = [
            subprocess.Popen(
                [sys.executable, HERE / "suite_rank.py", str(rank), str(size), str(self.store.port)],
                env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
            for rank in range(size)]

    def run(self, name):
        """The answers of the ranks; None of those that did not give one."""
        self.log.truncate(0)
        for process in self.processes:
            process.stdin.write(name + "\n")
            process.stdin.flush()
        answers = [None] * len(self.processes)
        waiting = {process.stdout: rank for rank, process in enumerate(self.processes)}
        end = time.monotonic() + TEST_LIMIT
        while waiting and time.monotonic() < end:
            ready, _, _ = select.select(list(waiting), [], [], max(0, end - time.monotonic()))
            for pipe in ready:
                line = pipe.readline()
                rank = waiting.pop(pipe)
                answers[rank] = json.loads(line) if line else None
                if answers[rank] is None or answers[rank]["outcome"] == "failed":
                    end = min(end, time.monotonic() + GRACE)
        return answers

    def output(self):
        self.log.seek(0)
        return self.log.read().lstrip("\0")

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            process.stdin.close()
            process.stdout.close()


def verdict(answers, output):
    """Of one test, from the answers of its ranks: outcome, and why."""
    why = []
    for rank, answer in enumerate(answers):
        if answer is None:
            why.append(f"rank {rank} died or gave no answer")
        elif answer["outcome"] == "failed":
            why.append(f"rank {rank}: {answer['why']}")
    if why:
        return "failed", "\n".join(why + [output])
    skipped = [answer["why"] for answer in answers if answer["outcome"] == "skipped"]
    return ("skipped", skipped[0]) if skipped else ("passed", "")


def known_skips(names, reasons, do_not_hold):
    """Tests that say beforehand that they do not apply."""
    skips = {}
    for name in names:
        why = reasons.get(name, set()) - do_not_hold
        if why:
            skips[name] = ("skipped", sorted(why)[0])
    return skips


def run_all(names, size, directory):
    outcomes = {}
    ranks = None
    for name in names:
        ranks = ranks or Ranks(size, directory)
        began = time.monotonic()
        answers = ranks.run(name)
        outcomes[name] = verdict(answers, ranks.output())
        print(f"{outcomes[name][0]:8}{time.monotonic() - began:6.2f} s  {name}", flush=True)
        if outcomes[name][0] == "failed":
            print(outcomes[name][1], flush=True)
            ranks.end()
            ranks = None
    if ranks:
        ranks.end()
    return outcomes


def summary(outcomes):
    """What stands in the docs."""
    passed = sorted(name for name, (outcome, _) in outcomes.items() if outcome == "passed")
    reasons = collections.defaultdict(list)
    for name, (outcome, why) in sorted(outcomes.items()):
        if outcome == "skipped":
            reasons[why].append(name)
    lines = [f"{len(passed)} pass:", "", "`" + "` `".join(passed) + "`", ""]
    lines += [f"{len(outcomes) - len(passed)} do not apply:", ""]
    for why, names in sorted(reasons.items()):
        lines += [f"- {why} ({len(names)}): `" + "` `".join(names) + "`"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--renew", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    os.environ["WORLD_SIZE"] = str(arguments.ranks)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["TEMP_DIR"] = directory
        os.environ["INIT_METHOD"] = f"file://{directory}/init"
        (pathlib.Path(directory) / "test_dir").mkdir()
        import suite_tests
        tests, reasons = suite_tests.load()
        names = arguments.names or suite_tests.names(tests)
        outcomes = known_skips(names, reasons, suite_tests.HERE_ALL_THE_SAME)
        outcomes.update(run_all([n for n in names if n not in outcomes], arguments.ranks, directory))
    counts = collections.Counter(outcome for outcome, _ in outcomes.values())
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    if counts["failed"]:
        sys.exit("failed: " + " ".join(n for n, (o, _) in outcomes.items() if o == "failed"))
    if arguments.page:
        page.check(arguments.page, "suite", summary(outcomes), arguments.renew)


if __name__ == "__main__":
    main()
