#!/usr/bin/python3
"""Data parallel training, ours (data_parallel_rank) and PyTorch's DDP over Gloo:
the same models, weights and batches, Adam, two processes with one thread each.
The processes live through the whole run and train in turn. --quick, --json as
all benches."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

OURS = pathlib.Path(__file__).resolve().parent / "data_parallel_rank"
SAMPLES = {"gpt": 4, "cnn": 64, "mlp": 64}  # of a rank in a step
STEPS = {"gpt": 2, "cnn": 20, "mlp": 2}
TEXTS = {"gpt": "gpt, 10 M parameters, 512 tokens a rank",
         "cnn": "cnn, Fashion-MNIST, 64 pictures a rank",
         "mlp": "mlp, 50 M parameters, 64 samples a rank"}


# The models of data_parallel_rank.cpp in PyTorch.

PERIOD = 65521


def hashed(shape, seed):
    import math
    import torch
    x = torch.arange(math.prod(shape))
    x = (x * 2654435761 + seed * 97531) & 0xffffffff
    x = x ^ x.div(1 << 15, rounding_mode="floor")
    x = (x * 40503) & 0xffffffff
    x = x ^ x.div(1 << 13, rounding_mode="floor")
    return x.view(shape)


def uniform(shape, seed):
    return (hashed(shape, seed).double() / 2147483648.0 - 1).float()


def set_weights(module):
    import torch
    with torch.no_grad():
        for seed, (name, param) in enumerate(module.named_parameters(), 1):
            if param.dim() > 1:
                series = uniform((PERIOD,), seed) * param[0].numel() ** -0.5
                count = param.numel()
                param.copy_(series.repeat(count // PERIOD + 1)[:count].view_as(param))
            elif name.endswith("bias"):
                param.zero_()


def make_gpt(width=320, layers=8, heads=5, vocab=256, context=128):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.norm2 = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def attention(self, joined, ahead):
            batch, length, _ = joined.shape
            size = width // heads
            q, k, v = joined.view(batch, length, heads, 3, size).permute(3, 0, 2, 1, 4)
            scores = ((q * size ** -0.5) @ k.transpose(-2, -1)).masked_fill(ahead, float("-inf"))
            return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)

        def forward(self, x, ahead):
            x = x + self.out(self.attention(self.qkv(self.norm1(x)), ahead))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocab, width)
            self.places = nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)

        def forward(self, text):
            length = text.shape[1]
            ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
            x = self.tokens(text) + self.places(torch.arange(length))
            for block in self.blocks:
                x = block(x, ahead)
            return self.norm(x) @ self.tokens.weight.t()
    return Gpt()


def make_cnn():
    from torch import nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def make_mlp(width=4096):
    from torch import nn
    return nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def make_batch(what, times, seed):
    if what == "gpt":
        text = hashed((4 * times, 129), seed) % 256
        return text[:, :128].contiguous(), text[:, 1:].flatten()
    batch = 64 * times
    shape = (batch, 1, 28, 28) if what == "cnn" else (batch, 4096)
    return uniform(shape, seed), hashed((batch,), seed + 500) % 10


def make_optimizer(net, way):
    """dp: every rank has all states; zero: its shard."""
    import torch
    if way == "dp":
        return torch.optim.Adam(net.parameters(), lr=1e-4)
    from torch.distributed.optim import ZeroRedundancyOptimizer
    return ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=1e-4)


def make_step(what, times, way):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    net = {"gpt": make_gpt, "cnn": make_cnn, "mlp": make_mlp}[what]()
    set_weights(net)
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = make_optimizer(net, way)
    x, target = make_batch(what, times, 1000 + dist.get_rank())

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, -2), target)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def serve(load):
    """A PyTorch rank with the protocol of data_parallel_rank. `load` makes a step function."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    step = None
    for line in sys.stdin:
        words = line.split()
        if words[0] == "load":
            step = None
            step = load(words)
            print(*[step() for _ in range(3)], flush=True)
        else:
            dist.barrier()
            began = time.perf_counter()
            for _ in range(int(words[1])):
                step()
            print(time.perf_counter() - began, flush=True)
    step = None
    dist.destroy_process_group()


# The race.

def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def kernels():
    """Environment that makes PyTorch use the same matrix product kernels as ours."""
    core = subprocess.run([OURS, "kernels"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    return {"OPENBLAS_CORETYPE": core} if core else {}


class Ranks:
    """The processes of one contestant; all execute the same commands."""

    def __init__(self, command, count, alone=False):
        port = str(free_port())
        self.processes = []
        for rank in range(count):
            env = dict(os.environ, OMP_NUM_THREADS="1", **kernels())
            if not alone:
                env.update(RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            self.processes.append(subprocess.Popen(
                command, env=env, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def ask(self, line, count=None):
        """Returns the numbers that each of the first `count` processes answers."""
        asked = self.processes[:count]
        for process in asked:
            process.stdin.write(line + "\n")
        answers = [process.stdout.readline().split() for process in asked]
        if not all(answers):
            sys.exit(f"a process of {self.processes[0].args} failed")
        return [[float(word) for word in answer] for answer in answers]

    def close(self):
        for process in self.processes:
            process.stdin.close()
        if any([process.wait(timeout=60) for process in self.processes]):
            sys.exit(f"a process of {self.processes[0].args} failed")


def check_losses(what, ours, theirs):
    """Checks the losses of three steps: weights and batches are equal, so they are too."""
    for rank, pair in enumerate(zip(ours, theirs)):
        if any(abs(a - b) > 1e-3 * abs(b) for a, b in zip(*pair)):
            sys.exit(f"{what}: losses of rank {rank} are {pair[0]}, PyTorch's {pair[1]}")


def race(contestants, samples, steps, rounds):
    """Best samples per second by name; a contestant returns seconds."""
    best = dict.fromkeys(contestants, 0)
    for _ in range(rounds):
        for name, (run, ranks) in contestants.items():
            seconds = max(answer[0] for answer in run(f"run {steps}"))
            best[name] = max(best[name], ranks * samples * steps / seconds)
    return best


def as_row(what, unit, ours, **peers):
    row = {"what": what, "unit": unit, "ours": ours}
    for peer, figure in peers.items():
        row[peer] = figure
        row["ratio_" + peer] = ours / figure
    text = "".join(f"   {peer} {figure:.4g}, {ours / figure:.2f} times" for peer, figure in peers.items())
    print(f"{what:48} {ours:10.4g} {unit}{text}", file=sys.stderr, flush=True)
    return row


def training_row(what, times, both, rounds, extra=None):
    losses = {name: ranks.ask(f"load {what} {times} dp") for name, ranks in both.items()}
    check_losses(what, losses["ours"], losses["pytorch"])
    contestants = {name: (ranks.ask, 2) for name, ranks in both.items()}
    steps = max(1, STEPS[what] // times)
    best = race(contestants | (extra or {}), times * SAMPLES[what], steps, rounds)
    text = TEXTS[what] + (f", {times} times" if times > 1 else "")
    return best, as_row(text, "samples/s", best["ours"], pytorch=best["pytorch"])


def gpt_rows(both, alone, rounds):
    alone.ask("load gpt 1 dp")
    best, row = training_row("gpt", 1, both, rounds, {
        "one": (lambda line: alone.ask(line, 1), 1), "apart": (alone.ask, 2)})
    alone.close()
    scaling = as_row("gpt, 2 ranks, of twice 1 rank's speed", "%", 50 * best["ours"] / best["one"],
                     apart=50 * best["apart"] / best["one"])
    return [row, scaling]


def main():
    if "rank" in sys.argv:
        serve(lambda words: make_step(words[1], int(words[2]), words[3]))
        return
    quick = "--quick" in sys.argv
    rounds = 3 if quick else 6
    both = {"ours": Ranks([OURS], 2), "pytorch": Ranks([sys.executable, __file__, "rank"], 2)}
    rows = gpt_rows(both, Ranks([OURS], 2, alone=True), rounds)
    rows += [training_row(what, 1, both, rounds)[1] for what in ("cnn", "mlp")]
    if not quick:
        rows += [training_row(what, 8, both, 4)[1] for what in TEXTS]
    for ranks in both.values():
        ranks.close()
    if "--json" in sys.argv:
        print(json.dumps({"subject": "data_parallel", "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
