#!/usr/bin/python3
"""usage: attention_peer.py HEADS LENGTH DIM ROUNDS

PyTorch's attention, causal, forward and backward, in one process: prints the
best time in seconds and the bytes by which the process grew at most.
"""
import resource
import sys
import time

import torch


def grown():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    heads, length, dim, rounds = map(int, sys.argv[1:])
    before = grown()
    x = [torch.rand(1, heads, length, dim, requires_grad=True) for _ in range(3)]
    gradient = torch.rand(1, heads, length, dim)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        out = torch.nn.functional._scaled_dot_product_attention(*x, None, 0.0, False, True)[0]
        out.backward(gradient)
        times.append(time.perf_counter() - began)
        for each in x:
            each.grad = None
        del out
    print(min(times), grown() - before)


main()
