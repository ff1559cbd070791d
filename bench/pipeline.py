#!/usr/bin/python3
"""A GPT in two stages by several schedules, ours (pipeline_rank) and 1F1B by hand
on PyTorch over Gloo (pipeline_peer.py): the same weights, microbatches and losses,
two processes with one thread each. What stages wait for each other and keep,
beside formulas and simulations. Then four stages that sleep instead of computing.
--quick, --json as all benches; "gpt" or "sleeping": that part alone."""
import json
import sys

from import_bench import HERE
from pipeline_peer import TOKENS, shared

OURS = HERE / "pipeline_rank"
KNOWN = ("gpipe", "1f1b", "interleaved", "zbh1", "zbv")


def seconds(answers):
    return max(answer[0] for answer in answers)


def race(contestants, rounds):
    """Returns each contestant's answers of its best step."""
    best = {}
    for _ in range(rounds):
        for name, ranks in contestants.items():
            now = ranks.ask("run 1")
            if name not in best or seconds(now) < seconds(best[name]):
                best[name] = now
    return best


def row_of_less(what, unit, figures):
    """A row of figures where less is better: measured, simulated, formula."""
    ours, simulated, formula = figures
    row = {"what": what, "unit": unit, "ours": ours}
    for peer, figure in (("formula", formula), ("simulated", simulated)):
        if figure >= 0:
            row[peer] = figure
            row["ratio_" + peer] = figure / ours
    text = "".join(f"   {key} {row[key]:.4g}" for key in ("formula", "simulated") if key in row)
    print(f"{what:48} {ours:10.4g} {unit}{text}", file=sys.stderr, flush=True)
    return row


def percent(figures):
    return [100 * figure if figure >= 0 else figure for figure in figures]


def rows_of(name, best):
    """Measures speed, bubble, and memory of the first stage."""
    _, bubble, simulated, formula, *peaks = best[name][0]
    own = TOKENS / seconds(best[name])
    alone = TOKENS / seconds(best["alone"])
    limit = alone * (1 - (formula if formula >= 0 else simulated))
    what = f"gpt, 2 stages, {name}"
    return [
        shared.as_row(what, "tokens/s", own, pytorch_1f1b=TOKENS / seconds(best["pytorch"]), limit=limit),
        row_of_less(what + ", bubble", "%", percent((bubble, simulated, formula))),
        row_of_less(what + ", activations of stage 0", "MB", [
            peak / 1e6 if peak >= 0 else peak for peak in peaks])]


def gpt_rows(rounds):
    names = (*KNOWN, "synthesised")
    ranks = {name: shared.Ranks([OURS], 2) for name in (*names, "alone")}
    ranks["pytorch"] = shared.Ranks([sys.executable, HERE / "pipeline_peer.py"], 2)
    losses = {name: each.ask(f"load gpt {name}") for name, each in ranks.items()}
    for name in names:
        shared.check_losses(name, losses[name], losses["pytorch"])
    best = race(ranks, rounds)
    for each in ranks.values():
        each.close()
    rows = [rows_of(name, best) for name in names]
    return [row for kind in zip(*rows) for row in kind]


def sleeping_rows(rounds):
    ranks = shared.Ranks([OURS], 4)
    rows = []
    for name in (*KNOWN, "eager", "synthesised"):
        ranks.ask(f"load sleeping {name}")
        figures = race({name: ranks}, rounds)[name][0][1:]
        rows.append(row_of_less(f"4 sleeping stages, {name}, bubble", "%", percent(figures)))
    ranks.close()
    return rows


def main():
    quick = "--quick" in sys.argv
    rows = []
    if "sleeping" not in sys.argv:
        rows += gpt_rows(3 if quick else 6)
    if "gpt" not in sys.argv:
        rows += sleeping_rows(1 if quick else 2)
    if "--json" in sys.argv:
        print(json.dumps({"subject": "pipeline", "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
