"""Checks the ops that it is told on standard input, one name a line, and
answers each with a line of JSON. A process of its own, as an op may end it."""
import collections
import json
import os
import re
import sys
import traceback
import warnings

import opinfo_cases as cases
import torch
from thread_ranks import ThreadRanks

def is_refusal(error):
    """Whether it says what DTensors, or groups, do not do."""
    return "[dtensor" in str(error) or "are not carried" in str(error)


def reason(error):
    """Of a refusal, as it stands in the list: without what differs by rank."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return re.sub(r"; rank \d+/\d+$", "", text)


class Checker:
    def __init__(self):
        self.ops = cases.load()
        self.worlds = [ThreadRanks(size) for size in (2, 3)]

    def check(self, name):
        """Counts of outcomes, the first reason of each, and the ops that ran
        without a rule."""
        self.outcomes = collections.Counter()
        self.reasons = {}
        self.gathered = set()
        for case in cases.cases_of(self.ops[name]):
            if case.why_not is None:
                self.check_case(case)
            else:
                self.note("unfit", case.why_not)
        return {
            "outcomes": self.outcomes, "reasons": self.reasons, "gathered": sorted(self.gathered)}

    def check_case(self, case):
        # What is random must not depend on the placement; the first tells.
        expected = None if case.is_random else case.expected
        for world in self.worlds:
            for way in cases.layouts(case.tensors):
                outcome, why, result = self.judge(case, expected, world, way)
                if outcome == "differs":
                    outcome = self.second_opinion(case, world, way)
                if outcome == "wrong":
                    why += f" ({world.size} ranks, {' '.join(map(str, way))})"
                self.note(outcome, f"in place: {why}" if case.in_place else why)
                expected = expected or result

    def second_opinion(self, case, world, way):
        """Of what differs by more than rounding, if it is not just that the op
        loses digits."""
        double = case.in_double()
        if double is None:
            return "wrong"
        outcome, _, _ = self.judge(double, double.expected, world, way)
        return "agrees" if outcome == "agrees" else "wrong"

    def note(self, outcome, why):
        self.outcomes[outcome] += 1
        self.reasons.setdefault(outcome, why)

    def attempt(self, case, mesh, way):
        torch.ops.argosy.take_gathered_ops()
        result = case.sharded(mesh, way)
        return result, torch.ops.argosy.take_gathered_ops()

    def judge(self, case, expected, world, way):
        """The outcome of one case, why, and what it gave."""
        results = world.run(lambda rank: self.attempt(case, world.mesh, way))
        errors = [result for result in results if isinstance(result, Exception)]
        if errors:
            if len(errors) == len(results) and all(map(is_refusal, errors)):
                return "refused", reason(errors[0]), None
            return "wrong", f"{len(errors)} of {len(results)} ranks: {reason(errors[0])}", None
        expected = expected or results[0][0]
        for result, gathered in results:
            self.gathered.update(gathered)
            what = cases.difference(result, expected, case.has_values)
            if what:
                return "differs", what, None
        return "agrees", None, results[0][0]


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    checker = Checker()
    for line in sys.stdin:
        try:
            answer = checker.check(line.strip())
        except Exception:
            answer = {"failed": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
