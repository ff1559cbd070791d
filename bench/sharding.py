#!/usr/bin/python3
"""Sharded training (ZeRO) beside plain data parallel training and PyTorch's
ZeroRedundancyOptimizer over Gloo: the models, weights and batches of
data_parallel.py, Adam, two processes with one thread each, which train in turn.
--quick, --json as all benches."""
import json
import sys

from import_bench import HERE, import_bench

SCRIPT = HERE / "data_parallel"
dp = import_bench("data_parallel")
LEVELS = {"os": 1, "os_g": 2, "p_g_os": 3}


def start():
    """Two ranks of each way to train."""
    ways = {name: (dp.Ranks([dp.OURS], 2), name) for name in ("dp", *LEVELS)}
    ways["pytorch_zero"] = (dp.Ranks([sys.executable, SCRIPT, "rank"], 2), "zero")
    return ways


def rows_of(what, ways, rounds):
    losses = {name: ranks.ask(f"load {what} 1 {way}") for name, (ranks, way) in ways.items()}
    for name in losses:
        dp.check_losses(f"{what}, {name}", losses[name], losses["pytorch_zero"])
    contestants = {name: (ranks.ask, 2) for name, (ranks, _) in ways.items()}
    best = dp.race(contestants, dp.SAMPLES[what], dp.STEPS[what], rounds)
    return [dp.as_row(f"{dp.TEXTS[what]}, stage {stage}", "samples/s", best[level],
                      data_parallel=best["dp"], pytorch_zero=best["pytorch_zero"])
            for level, stage in LEVELS.items()]


def main():
    quick = "--quick" in sys.argv
    ways = start()
    rows = [row for what in ("gpt", "mlp") for row in rows_of(what, ways, 3 if quick else 8)]
    for ranks, _ in ways.values():
        ranks.close()
    if "--json" in sys.argv:
        print(json.dumps({"subject": "sharding", "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
