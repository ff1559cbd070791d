#!/usr/bin/python3
"""A layer of experts, forward and backward, ours (moe_rank) and one by hand on
PyTorch: all_to_all_single over Gloo and index ops. The same weights, tokens and
losses, two processes with one thread each; and what part of the time dispatch and
combine are, with the wait for the other rank. Then in chunks that travel while
others are computed, on one host and on a link that is slowed down. --quick, --json
as all benches."""
import json
import subprocess
import sys

from import_bench import HERE, import_bench

OURS = HERE / "moe_rank"
TOKENS, WIDTH = 1024, 512  # of a rank
SIZES = ((8, 2048, 2), (32, 512, 4))  # experts, their hidden features, choices
RATES = (400, 1600)  # Mbit/s of the slowed link
shared = import_bench("data_parallel")  # the processes and the race
links = import_bench("tensor_parallel")


# The layer of moe_rank.cpp in PyTorch.

def series(shape, seed, bound):
    import math
    count = math.prod(shape)
    numbers = shared.uniform((shared.PERIOD,), seed) * bound
    return numbers.repeat(count // shared.PERIOD + 1)[:count].view(shape).clone()


def make_exchange():
    import torch
    import torch.distributed as dist

    class Exchange(torch.autograd.Function):
        """Exchanges rows between the ranks."""

        @staticmethod
        def forward(context, x, sends, receives):
            context.splits = sends, receives
            out = x.new_empty((sum(receives), x.shape[1]))
            dist.all_to_all_single(out, x.contiguous(), receives, sends)
            return out

        @staticmethod
        def backward(context, grad):
            sends, receives = context.splits
            out = grad.new_empty((sum(sends), grad.shape[1]))
            dist.all_to_all_single(out, grad.contiguous(), sends, receives)
            return out, None, None
    return Exchange.apply


def make_layer(experts, hidden, top_k):
    import torch
    import torch.distributed as dist
    from torch import nn
    exchange = make_exchange()
    ranks, rank = dist.get_world_size(), dist.get_rank()
    local = experts // ranks
    numbers = range(rank * local, (rank + 1) * local)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            def values(shape, seed):
                bound = 0.05 if seed == 1 else shape[0] ** -0.5
                return nn.Parameter(series(shape, seed, bound))
            self.gate = values((experts, WIDTH), 1)
            self.gate_bias = nn.Parameter(torch.zeros(experts))
            self.up = nn.ParameterList([values((WIDTH, hidden), 100 + e) for e in numbers])
            self.down = nn.ParameterList([values((hidden, WIDTH), 500 + e) for e in numbers])
            self.up_bias = nn.ParameterList([nn.Parameter(torch.zeros(hidden)) for _ in numbers])
            self.down_bias = nn.ParameterList([nn.Parameter(torch.zeros(WIDTH)) for _ in numbers])

        def run_experts(self, rows, counts):
            parts = rows.split(counts)
            return torch.cat([
                torch.addmm(self.down_bias[i], nn.functional.gelu(torch.addmm(self.up_bias[i], part, self.up[i])),
                            self.down[i]) for i, part in enumerate(parts)])

        def forward(self, x):
            logits = nn.functional.linear(x, self.gate, self.gate_bias)
            chosen = logits.topk(top_k, 1)
            weights = chosen.values.softmax(1)
            order = chosen.indices.flatten().argsort(stable=True)
            counts = torch.bincount(chosen.indices.flatten(), minlength=experts)
            arriving = torch.empty_like(counts)
            dist.all_to_all_single(arriving, counts)
            sends = counts.view(ranks, local).sum(1).tolist()
            receives = arriving.view(ranks, local).sum(1).tolist()
            rows = exchange(x.index_select(0, order.div(top_k, rounding_mode="floor")), sends, receives)
            numbers = torch.arange(local).repeat(ranks).repeat_interleave(arriving)
            by_expert = numbers.argsort(stable=True)
            done = self.run_experts(
                rows.index_select(0, by_expert), arriving.view(ranks, local).sum(0).tolist())
            back = exchange(
                torch.empty_like(done).index_copy(0, by_expert, done), receives, sends)
            mine = torch.empty_like(back).index_copy(0, order, back).view(-1, top_k, WIDTH)
            return torch.bmm(weights.unsqueeze(1), mine).squeeze(1)
    return Layer()


def make_step(size):
    import torch.distributed as dist
    layer = make_layer(*size)
    x = shared.uniform((TOKENS, WIDTH), 1000 + dist.get_rank()).requires_grad_()

    def step():
        x.grad = None
        layer.zero_grad(set_to_none=True)
        loss = layer(x).pow(2).sum() / x.numel()
        loss.backward()
        return loss.item()
    return step


# The race.

class Travel:
    """Runs the ranks; keeps the share of dispatch and combine in the fastest run."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.seconds, self.share = float("inf"), 0

    def ask(self, line):
        answers = self.ranks.ask(line)
        seconds = max(answer[0] for answer in answers)
        if seconds < self.seconds:
            self.seconds = seconds
            self.share = 100 * sum(answer[1] / answer[0] for answer in answers) / len(answers)
        return answers


def rows_of(size, ranks, rounds):
    text = " ".join(map(str, size))
    losses = {name: each.ask(f"load {name if name in ('products', 'overlap') else 'layer'} {text}")
              for name, each in ranks.items()}
    for name in ("ours", "overlap"):
        shared.check_losses("moe", losses[name], losses["pytorch"])
    ranks["ours"].ask("run 1")  # its answer has the travel of the steps of load too
    travel = Travel(ranks["ours"])
    contestants = {name: (each.ask, 2) for name, each in ranks.items()} | {"ours": (travel.ask, 2)}
    best = shared.race(contestants, TOKENS, 2, rounds)
    what = f"{size[0]} experts of {WIDTH} x {size[1]}, {size[2]} for each of {2 * TOKENS} tokens"
    print(f"dispatch and combine: {travel.share:.1f} % of the time", file=sys.stderr)
    return [
        shared.as_row(what, "tokens/s", best["ours"], pytorch=best["pytorch"], products=best["products"]),
        shared.as_row(what + ", in two chunks that overlap", "tokens/s", best["overlap"],
                      whole=best["ours"], pytorch=best["pytorch"]),
        {"what": what + ", dispatch and combine", "unit": "% of the time", "ours": travel.share}]


def linked_rows(size, rate, rounds):
    try:
        link = links.SlowLink(rate)
    except (OSError, subprocess.CalledProcessError):
        print("no right to make network namespaces: left out", file=sys.stderr)
        return []
    text = " ".join(map(str, size))
    kinds = {"overlap": "overlap", "whole": "layer"}
    try:
        ranks = {name: links.LinkedRanks(link, OURS) for name in kinds}
        losses = {name: each.ask(f"load {kinds[name]} {text}") for name, each in ranks.items()}
        shared.check_losses("moe", losses["overlap"], losses["whole"])
        best = shared.race({name: (each.ask, 2) for name, each in ranks.items()}, TOKENS, 1, rounds)
        for each in ranks.values():
            each.close()
    finally:
        link.close()
    return [shared.as_row(f"{size[0]} experts of {WIDTH} x {size[1]}, in two chunks, link of {rate} Mbit/s",
                          "tokens/s", best["overlap"], whole=best["whole"])]


def main():
    if "rank" in sys.argv:
        shared.serve(lambda words: make_step([int(word) for word in words[2:]]))
        return
    quick = "--quick" in sys.argv
    ranks = {name: shared.Ranks([OURS], 2) for name in ("ours", "overlap", "products")}
    ranks["pytorch"] = shared.Ranks([sys.executable, __file__, "rank"], 2)
    rows = [row for size in SIZES for row in rows_of(size, ranks, 3 if quick else 8)]
    for each in ranks.values():
        each.close()
    for rate in RATES[:1] if quick else RATES:
        rows += linked_rows(SIZES[0], rate, 2 if quick else 4)
    if "--json" in sys.argv:
        print(json.dumps({"subject": "moe", "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
