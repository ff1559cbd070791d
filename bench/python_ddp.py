#!/usr/bin/python3
"""DDP and all_reduce through torch.distributed, on argosy and on gloo, in the
same two processes with one thread each. --quick, --json as all benches."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

RANKS = 2
BACKENDS = {"ours": "argosy", "gloo": "gloo"}
# Bytes, and how many in a row make one figure.
ALL_REDUCES = {"1 KB": (1 << 10, 1000), "1 MB": (1 << 20, 50), "16 MB": (1 << 24, 6), "64 MB": (1 << 26, 2)}
# Width of the four layers, batch and steps. The batches are small, so that
# the communication shows beside the matrix products.
MODELS = {"0.3 M": (256, 8, 20), "25 M": (2500, 2, 2)}


def seconds_each(run, times):
    import torch.distributed as dist
    dist.barrier()
    began = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - began) / times


def race(contestants, times, rounds):
    """The best of interleaved rounds, by name."""
    for run in contestants.values():
        run()  # connections, buckets, pages
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            best[name] = min(best[name], seconds_each(run, times))
    return best


def make_step(width, batch, wrap):
    import torch
    torch.manual_seed(0)
    layers = []
    for _ in range(4):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    model = wrap(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(batch, width)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return step


def ddp_row(what, groups, rounds):
    from torch.nn.parallel import DistributedDataParallel
    width, batch, steps = MODELS[what]
    contestants = {
        name: make_step(width, batch, lambda m, g=group: DistributedDataParallel(m, process_group=g))
        for name, group in groups.items()}
    contestants["alone"] = make_step(width, batch, lambda m: m)
    best = race(contestants, steps, rounds)
    return f"DDP step, MLP of {what} parameters", "ms", {k: v * 1e3 for k, v in best.items()}


def all_reduce_row(what, groups, rounds):
    import torch
    import torch.distributed as dist
    size, times = ALL_REDUCES[what]
    contestants = {}
    for name, group in groups.items():
        tensor = torch.zeros(size // 4)
        contestants[name] = lambda t=tensor, g=group: dist.all_reduce(t, group=g)
    best = race(contestants, times, rounds)
    return f"all_reduce, {what}", "us", {k: v * 1e6 for k, v in best.items()}


def as_row(what, unit, figures):
    row = {"what": what, "unit": unit, "ours": figures["ours"]}
    for peer in figures.keys() - {"ours"}:
        row[peer] = figures[peer]
        row["ratio_" + peer] = figures[peer] / figures["ours"]
    return row


def text_of(row):
    peers = sorted(key for key in row if "ratio_" + key in row)
    return f"{row['what']:36} {row['ours']:10.3f} {row['unit']}" + "".join(
        f"   {peer} {row[peer]:.3f}, {row['ratio_' + peer]:.2f} times" for peer in peers)


def rank_main(quick):
    import argosy_torch  # noqa: F401
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {name: dist.new_group(backend=backend) for name, backend in BACKENDS.items()}
    rounds = 5 if quick else 10
    rows = []
    for measure, table in ((all_reduce_row, ALL_REDUCES), (ddp_row, MODELS)):
        for what in table:
            rows.append(as_row(*measure(what, groups, rounds)))
            if dist.get_rank() == 0:
                print(text_of(rows[-1]), file=sys.stderr, flush=True)
    if dist.get_rank() == 0:
        pathlib.Path(os.environ["ROWS"]).write_text(json.dumps(rows))
    dist.destroy_process_group()


def run_ranks(quick):
    with tempfile.TemporaryDirectory() as directory:
        rows = pathlib.Path(directory) / "rows"
        import socket
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = [
            subprocess.Popen([sys.executable, __file__] + ["--quick"] * quick, env=dict(
                os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port), OMP_NUM_THREADS="1", ROWS=str(rows)))
            for rank in range(RANKS)]
        if any([rank.wait() for rank in ranks]):
            sys.exit("a rank failed")
        return json.loads(rows.read_text())


def main():
    if "ROWS" in os.environ:
        rank_main("--quick" in sys.argv)
        return
    rows = run_ranks("--quick" in sys.argv)
    if "--json" in sys.argv:
        print(json.dumps({"subject": "python_ddp", "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
