#!/usr/bin/python3
"""Tensor parallel training of GPT blocks, ours (tensor_parallel_rank) and layers
by hand on PyTorch over Gloo, as Megatron has them: the same weights and batches,
two processes with one thread each. Then four processes as a grid and as a line,
and two parts of the batch that take turns, on a link that is slowed down. --quick, --json as all benches."""
import json
import os
import subprocess
import sys

from import_bench import HERE, import_bench

OURS = HERE / "tensor_parallel_rank"
LAYERS = 4
BATCH, LENGTH, WIDTH, HEADS = 4, 128, 512, 8
TOKENS = BATCH * LENGTH
RATES = (200, 400, 800)  # Mbit/s of the slowed link
shared = import_bench("data_parallel")  # the processes and the race


# What tensor_parallel_rank.cpp has, in PyTorch.

def make_layers():
    import torch
    import torch.distributed as dist
    from torch import nn

    class Reduce(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            dist.all_reduce(x)
            context.mark_dirty(x)
            return x

        @staticmethod
        def backward(_, grad):
            return grad

    class ColumnProduct(torch.autograd.Function):
        """The reduction of x's gradient runs beside the product for the weight's."""

        @staticmethod
        def forward(context, x, weight, bias):
            context.save_for_backward(x, weight)
            return nn.functional.linear(x, weight, bias)

        @staticmethod
        def backward(context, grad):
            x, weight = context.saved_tensors
            grad_x = grad @ weight
            work = dist.all_reduce(grad_x, async_op=True)
            rows = grad.flatten(0, -2)
            grad_weight = rows.t() @ x.flatten(0, -2)
            grad_bias = rows.sum(0)
            work.wait()
            return grad_x, grad_weight, grad_bias

    def part(size):
        return size // dist.get_world_size()

    class Column(nn.Linear):
        def __init__(self, inputs, outputs):
            super().__init__(inputs, part(outputs))

        def forward(self, x):
            return ColumnProduct.apply(x, self.weight, self.bias)

    class Row(nn.Linear):
        def __init__(self, inputs, outputs):
            super().__init__(part(inputs), outputs)

        def forward(self, x):
            return Reduce.apply(nn.functional.linear(x, self.weight)) + self.bias
    return Column, Row


def make_blocks(layers, column, row):
    import torch
    from torch import nn
    ahead = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = nn.LayerNorm(WIDTH)
            self.qkv = column(WIDTH, 3 * WIDTH)
            self.out = row(WIDTH, WIDTH)
            self.norm2 = nn.LayerNorm(WIDTH)
            self.up = column(WIDTH, 4 * WIDTH)
            self.down = row(4 * WIDTH, WIDTH)

        def attention(self, joined):
            batch, length, columns = joined.shape
            size = WIDTH // HEADS
            heads = columns // 3 // size
            q, k, v = joined.view(batch, length, heads, 3, size).permute(3, 0, 2, 1, 4)
            scores = ((q * size ** -0.5) @ k.transpose(-2, -1)).masked_fill(ahead, float("-inf"))
            return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, heads * size)

        def forward(self, x):
            x = x + self.out(self.attention(self.qkv(self.norm1(x))))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))
    return nn.Sequential(*[Block() for _ in range(layers)])


def make_step(layers):
    import torch
    import torch.distributed as dist
    from torch import nn
    whole = make_blocks(layers, nn.Linear, nn.Linear)
    shared.set_weights(whole)
    net = make_blocks(layers, *make_layers())
    with torch.no_grad():
        for own, all_of_it in zip(net.parameters(), whole.parameters()):
            for dim in range(own.dim()):
                size = own.shape[dim]
                if size < all_of_it.shape[dim]:
                    all_of_it = all_of_it.narrow(dim, dist.get_rank() * size, size)
            own.copy_(all_of_it)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = shared.uniform((BATCH, LENGTH, WIDTH), 1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).pow(2).sum() / x.numel()
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


# The race.

def load(ranks, kind):
    return ranks.ask(f"load {kind} {LAYERS}")


def local_rows(rounds):
    kinds = {"ours": "tp", "sequence": "sp", "limit": "limit"}
    ranks = {name: shared.Ranks([OURS], 2) for name in kinds}
    ranks["pytorch"] = shared.Ranks([sys.executable, __file__, "rank"], 2)
    losses = {name: load(each, kinds.get(name, "tp")) for name, each in ranks.items()}
    for name in ("ours", "sequence"):
        shared.check_losses(name, losses[name], losses["pytorch"])
    best = shared.race({name: (each.ask, 1) for name, each in ranks.items()}, TOKENS, 2, rounds)
    for each in ranks.values():
        each.close()
    text = f"{LAYERS} blocks of width {WIDTH}, {TOKENS} tokens, cut in 2"
    return [
        shared.as_row(text, "tokens/s", best["ours"], pytorch=best["pytorch"], limit=best["limit"]),
        shared.as_row(text + ", the sequence too", "tokens/s", best["sequence"], limit=best["limit"])]


def grid_rows(rounds):
    """Four ranks as a grid of two times two, against the four in one dimension."""
    kinds = {"ours": "grid", "line": "tp"}
    ranks = {name: shared.Ranks([OURS], 4) for name in kinds}
    losses = {name: load(each, kinds[name]) for name, each in ranks.items()}
    shared.check_losses("grid", losses["ours"], losses["line"])
    best = shared.race({name: (each.ask, 1) for name, each in ranks.items()}, TOKENS, 1, rounds)
    sent = {name: each.ask("run 1")[0][1] for name, each in ranks.items()}
    for each in ranks.values():
        each.close()
    text = "the same on a grid of 2 x 2 ranks"
    bytes_row = shared.as_row(text + ", sent by a rank", "MB/step", sent["ours"], line=sent["line"])
    bytes_row["ratio_line"] = sent["line"] / sent["ours"]  # less is better
    return [shared.as_row(text, "tokens/s", best["ours"], line=best["line"]), bytes_row]


class SlowLink:
    """Two network namespaces with a cable of so many Mbit/s between them."""

    def __init__(self, rate):
        self.names = [f"ag{os.getpid() % 100000}n{i}" for i in range(2)]
        self.addresses = [f"10.79.0.{i + 1}" for i in range(2)]
        a, b = self.names
        run = self.run
        for name in self.names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", a, "type", "veth", "peer", "name", b)
        for name, address in zip(self.names, self.addresses):
            run("ip", "link", "set", name, "netns", name)
            run("ip", "-n", name, "addr", "add", address + "/24", "dev", name)
            run("ip", "-n", name, "link", "set", name, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("tc", "-n", name, "qdisc", "add", "dev", name, "root", "tbf",
                "rate", f"{rate}mbit", "burst", "256k", "latency", "200ms")

    @staticmethod
    def run(*command):
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


class LinkedRanks(shared.Ranks):
    """A process in each namespace, over Gloo."""

    def __init__(self, link, program):
        port = str(shared.free_port())
        self.processes = []
        for rank, name in enumerate(link.names):
            env = dict(
                os.environ, OMP_NUM_THREADS="1", RANK=str(rank), WORLD_SIZE="2",
                MASTER_ADDR=link.addresses[0], MASTER_PORT=port)
            self.processes.append(subprocess.Popen(
                ["ip", "netns", "exec", name, program, "gloo"], env=env, text=True, bufsize=1,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE))


def linked_row(rate, rounds):
    try:
        link = SlowLink(rate)
    except (OSError, subprocess.CalledProcessError):
        print("no right to make network namespaces: left out", file=sys.stderr)
        return []
    kinds = {"ours": "multi", "unsplit": "tp", "limit": "limit"}
    try:
        ranks = {name: LinkedRanks(link, OURS) for name in kinds}
        losses = {name: load(each, kinds[name]) for name, each in ranks.items()}
        shared.check_losses("multi-copy", losses["ours"], losses["unsplit"])
        best = shared.race({name: (each.ask, 1) for name, each in ranks.items()}, TOKENS, 1, rounds)
        for each in ranks.values():
            each.close()
    finally:
        link.close()
    return [shared.as_row(f"the same in two parts, link of {rate} Mbit/s", "tokens/s", best.pop("ours"), **best)]


def main():
    if "rank" in sys.argv:
        shared.serve(lambda words: make_step(int(words[2])))
        return
    quick = "--quick" in sys.argv
    rows = local_rows(3 if quick else 6) + grid_rows(2 if quick else 4)
    for rate in RATES[1:2] if quick else RATES:
        rows += linked_row(rate, 2 if quick else 4)
    if "--json" in sys.argv:
        print(json.dumps({"subject": "tensor_parallel", "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
