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
        self.worlds = [ThreadRanks(mesh) for mesh in ([0, 1], [0, 1, 2], [[0, 1], [2, 3]])]

    def check(self, name):
        """Counts of outcomes, the first reason of each, and the ops that ran
        without a rule."""
        self.outcomes = collections.Counter()
        self.reasons = {}
        self.gathered = set()
        for number, case in enumerate(cases.cases_of(self.ops[name])):
            if case.why_not is None:
                some = [world for world in self.worlds
                        if world.mesh.ndim == 1 or number < cases.MOST_ON_TWO_AXES]
                self.check_case(case, some)
            else:
                self.note("unfit", case.why_not)
        return {
            "outcomes": self.outcomes, "reasons": self.reasons, "gathered": sorted(self.gathered)}

    def check_case(self, case, worlds):
        # What is random must not depend on the placement; the first tells.
        expected = None if case.is_random else case.expected
        for world in worlds:
            for layout in cases.layouts(case.tensors, world.mesh.ndim):
                outcome, why, result = self.judge(case, expected, world, layout)
                if outcome == "differs":
                    outcome = self.second_opinion(case, world, layout)
                if outcome == "wrong":
                    why += f" ({world.mesh.shape} ranks, {self.text(layout)})"
                self.note(outcome, f"in place: {why}" if case.in_place else why)
                expected = expected or result

    def second_opinion(self, case, world, layout):
        """Of what differs by more than rounding, if it is not just that the op
        loses digits."""
        double = case.in_double()
        if double is None:
            return "wrong"
        outcome, _, _ = self.judge(double, double.expected, world, layout)
        return "agrees" if outcome == "agrees" else "wrong"

    @staticmethod
    def text(layout):
        return " ".join("[" + ", ".join(map(str, placements)) + "]" for placements in layout)

    def note(self, outcome, why):
        self.outcomes[outcome] += 1
        self.reasons.setdefault(outcome, why)

    def attempt(self, case, mesh, layout):
        torch.ops.argosy.take_gathered_ops()
        result = case.sharded(mesh, layout)
        return result, torch.ops.argosy.take_gathered_ops()

    def judge(self, case, expected, world, layout):
        """The outcome of one case, why, and what it gave."""
        results = world.run(lambda rank: self.attempt(case, world.mesh, layout))
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
