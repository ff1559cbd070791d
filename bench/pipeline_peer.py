#!/usr/bin/python3
"""The GPT of pipeline_rank.cpp by 1F1B, by hand on PyTorch: isend and irecv over
Gloo, the next message received ahead, two processes with one thread each."""
from import_bench import import_bench

MICROBATCHES, ROWS, LENGTH, WIDTH = 8, 16, 96, 256
TOKENS = ROWS * LENGTH
shared = import_bench("data_parallel")  # the processes and the race


def make_stage():
    """This rank's stage, from its input (and label) to its output."""
    import torch
    import torch.distributed as dist
    from torch import nn
    whole = shared.make_gpt(width=WIDTH, layers=8, heads=4, context=LENGTH)
    shared.set_weights(whole)
    ahead = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)

    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places, self.blocks = whole.tokens, whole.places, whole.blocks[:4]

        def forward(self, text, _):
            x = self.tokens(text) + self.places(torch.arange(LENGTH))
            for block in self.blocks:
                x = block(x, ahead)
            return x

    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.norm, self.tokens = whole.blocks[4:], whole.norm, whole.tokens

        def forward(self, x, labels):
            for block in self.blocks:
                x = block(x, ahead)
            scores = self.norm(x) @ self.tokens.weight.t()
            return nn.functional.cross_entropy(scores.flatten(0, -2), labels.flatten()) / MICROBATCHES
    return First() if dist.get_rank() == 0 else Last()


class Channel:
    """Transfers tensors of one shape to and from the other stage."""

    def __init__(self, messages):
        import torch.distributed as dist
        self.dist, self.other = dist, 1 - dist.get_rank()
        self.left = messages
        self.sends = []
        self.post()

    def post(self):
        import torch
        if self.left > 0:
            self.left -= 1
            self.next = torch.empty(ROWS // MICROBATCHES, LENGTH, WIDTH)
            self.work = self.dist.irecv(self.next, self.other)

    def receive(self):
        self.work.wait()
        come = self.next
        self.post()
        return come

    def send(self, tensor):
        self.sends.append((self.dist.isend(tensor, self.other), tensor))

    def finish(self):
        for work, _ in self.sends:
            work.wait()


def run_first(stage, texts):
    channel = Channel(MICROBATCHES)
    kept = []

    def forward(text):
        kept.append(stage(text, None))
        channel.send(kept[-1].detach())

    def backward():
        gradient = channel.receive()
        kept.pop(0).backward(gradient)
    forward(texts[0])
    for text in texts[1:]:
        forward(text)
        backward()
    backward()
    channel.finish()
    return 0.0


def run_last(stage, labels):
    channel = Channel(MICROBATCHES)
    losses = []
    for label in labels:
        x = channel.receive().requires_grad_()
        loss = stage(x, label)
        loss.backward()
        channel.send(x.grad)
        losses.append(loss.detach())
    channel.finish()
    return sum(losses).item()


def make_step():
    import torch
    import torch.distributed as dist
    stage = make_stage()
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    text = shared.hashed((ROWS, LENGTH + 1), 1000) % 256
    is_first = dist.get_rank() == 0
    run = run_first if is_first else run_last
    batch = (text[:, :-1] if is_first else text[:, 1:]).contiguous().chunk(MICROBATCHES)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.tensor(run(stage, batch))
        dist.all_reduce(stage.tokens.weight.grad)
        optimizer.step()
        dist.broadcast(loss, 1)
        return loss.item()
    return step


if __name__ == "__main__":
    shared.serve(lambda words: make_step())
